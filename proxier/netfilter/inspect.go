package netfilter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Inspection is what one look at a host's rules tells, without any knowledge of what
// was written earlier.
type Inspection struct {
	// Found says what of our rules is not as it should be, a line each; nil: nothing.
	Found []string
	// Policies are those of the built-in chains, such as "IPv4 filter FORWARD" to "DROP".
	Policies map[string]string
	// OtherMode are chains of kube-proxy's iptables mode, with family and table.
	OtherMode []string
	// Families were read: "IPv4", "IPv6".
	Families []string
	// Counters are those of rules that match a set.
	Counters []Counter
}

// Inspect reads the rules once a family (one process) and compares them with those of
// the flags, rule by rule. Flags that depend on the host's features (RandomFully,
// IPVSMatch) count as given or as the rules that are there say. A family that cannot
// be read is in the error, and the other one is judged all the same.
func Inspect(ctx context.Context, flags Flags) (Inspection, error) {
	i := Inspection{Policies: map[string]string{}}
	var errs []error
	for _, ipv6 := range []bool{false, true} {
		if ipv6 && (!flags.IPv6 || ipv6Off() != nil) || !ipv6 && !flags.IPv4 {
			continue
		}
		p, err := findPrograms(flags.Backend, ipv6)
		if err == nil {
			err = i.inspect(ctx, p, flags, ipv6)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s rules: %w", familyName(ipv6), err))
		}
	}
	slices.Sort(i.OtherMode)
	return i, errors.Join(errs...)
}

func (i *Inspection) inspect(ctx context.Context, p programs, flags Flags, ipv6 bool) error {
	counted, _, err := run(ctx, "", p.save, "-c")
	if err != nil {
		return err
	}
	out, counters := splitCounters(counted)
	i.Counters = append(i.Counters, counters...)
	l := parseListing(out)
	rs := renderAs(flags, ipv6, l.stamp())
	d := rs.compare(l)
	i.Found = slices.Concat(i.Found, d.found, rs.compareText(l))
	i.Families = append(i.Families, familyName(ipv6))
	for _, t := range rs.Tables {
		for _, chain := range own(t, l.table(t.Name)).leftovers {
			i.OtherMode = append(i.OtherMode, fmt.Sprintf("%s %s %s", familyName(ipv6), t.Name, chain))
		}
	}
	for chain, policy := range policies(out) {
		i.Policies[familyName(ipv6)+" "+chain] = policy
	}
	return nil
}

// renderAs renders the rules with the features of the host that wrote the stamp, or
// with those of the flags when no features lead to it.
func renderAs(flags Flags, ipv6 bool, stamp string) Ruleset {
	for _, randomFully := range []bool{flags.RandomFully, !flags.RandomFully} {
		for _, ipvsMatch := range []bool{flags.IPVSMatch, !flags.IPVSMatch} {
			f := flags
			f.RandomFully, f.IPVSMatch = randomFully, ipvsMatch
			if rs := Render(f, ipv6); rs.Stamp == stamp {
				return rs
			}
		}
	}
	return Render(flags, ipv6)
}

// compareText finds rules of our chains that are not as rendered. The rendered text
// is what iptables-save prints, save for the default answer of REJECT. Where the
// number of rules differs, compare has said so.
func (rs Ruleset) compareText(l listing) []string {
	var found []string
	for _, t := range rs.Tables {
		listed := l.table(t.Name)
		for _, c := range t.Chains {
			rules := listed.chains[c.Name]
			if len(rules) != len(c.Rules) || c.Name == stampChain {
				continue
			}
			for n, rule := range rules {
				if !slices.Equal(plainWords(rule), plainWords(c.Rules[n])) {
					found = append(found, fmt.Sprintf("%s %s: rule %d of chain %s is %q, want %q",
						familyName(rs.IPv6), t.Name, n+1, c.Name, rule, c.Rules[n]))
				}
			}
		}
	}
	return found
}

// plainWords are the words of a rule without the default answer of REJECT, which is
// printed but not written.
func plainWords(rule string) []string {
	for _, answer := range []string{" --reject-with icmp-port-unreachable", " --reject-with icmp6-port-unreachable"} {
		rule = strings.TrimSuffix(rule, answer)
	}
	return words(rule)
}

// policies are those of the built-in chains by table and chain, "filter FORWARD".
func policies(out string) map[string]string {
	found := map[string]string{}
	table := ""
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(line, "*"); ok {
			table = strings.TrimSpace(name)
		}
		f := strings.Fields(line)
		if len(f) > 1 && strings.HasPrefix(f[0], ":") && f[1] != "-" {
			found[table+" "+f[0][1:]] = f[1]
		}
	}
	return found
}
