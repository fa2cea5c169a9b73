package netfilter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"kube-ipvs-proxy/ipsetutil"
)

// Leave says what of the rules stays when the proxy leaves the node.
type Leave uint8

const (
	// LeaveNothing takes out every chain of ours, also those that have kube-proxy's
	// names, unless kube-proxy's iptables mode has taken those over.
	LeaveNothing Leave = iota
	// LeaveToKubeProxy keeps the chains that kube-proxy's ipvs mode has too, without
	// what only this proxy has in them, so that it can take them over.
	LeaveToKubeProxy
)

// ownPrefix begins the names of chains and sets that kube-proxy does not have.
const ownPrefix = "KIPVS-"

// sharedWithIPTables are chains of ours that kube-proxy's iptables mode has too.
var sharedWithIPTables = map[string][]string{
	tableNAT:    {chainServices, chainKubePostrt, chainMarkMasq},
	tableFilter: {chainFirewall, chainForward},
}

// Withdrawal is what taking the rules out changes; see Rules.PlanWithdrawal.
type Withdrawal struct {
	// Removed names chains that go and Rewritten those that lose rules, with family
	// and table ("IPv4 nat KUBE-SERVICES"). Kept are chains that stay, with the reason.
	Removed, Rewritten, Kept []string
	inputs                   map[*family]string
}

// PlanWithdrawal finds what taking our rules out would change. It reads once a
// family (one process) and writes nothing. Chains of others, and rules in built-in
// chains that lead to them, are never part of it.
func (r *Rules) PlanWithdrawal(ctx context.Context, leave Leave) (Withdrawal, error) {
	w := Withdrawal{inputs: map[*family]string{}}
	var errs []error
	for _, f := range r.families {
		l, err := f.programs.list(ctx)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		w.inputs[f] = f.want.withdraw(l, leave, &w)
	}
	return w, errors.Join(errs...)
}

// Withdraw carries a plan out, one process a family that has something to take out.
func (r *Rules) Withdraw(ctx context.Context, w Withdrawal) error {
	var errs []error
	for _, f := range r.families {
		f.seen = nil
		if input := w.inputs[f]; input != "" {
			errs = append(errs, f.programs.write(ctx, input))
		}
	}
	return errors.Join(errs...)
}

// withdraw adds to w what goes and stays, and returns the restore input.
func (rs Ruleset) withdraw(l listing, leave Leave, w *Withdrawal) string {
	other := iptablesMode(l)
	var b strings.Builder
	for _, t := range rs.Tables {
		listed := l.table(t.Name)
		place := func(chain string) string { return fmt.Sprintf("%s %s %s", familyName(rs.IPv6), t.Name, chain) }
		o := owned{table: t, listed: listed, chains: map[string]bool{}, jumpedTo: map[string]bool{}}
		var lines, remove []string
		for _, c := range t.Chains {
			_, there := listed.chains[c.Name]
			switch {
			case !there:
			case strings.HasPrefix(c.Name, ownPrefix) || leave == LeaveNothing && !(other && slices.Contains(sharedWithIPTables[t.Name], c.Name)):
				o.chains[c.Name], o.jumpedTo[c.Name] = true, t.isJumpedTo(c.Name)
			case leave == LeaveNothing:
				w.Kept = append(w.Kept, place(c.Name)+": kube-proxy's iptables mode has it now")
			case mentionsOwn(listed.chains[c.Name]):
				w.Rewritten = append(w.Rewritten, place(c.Name))
				lines = append(lines, rewrite(c.Name, listed.chains[c.Name], rs.IPv6)...)
				listed.chains[c.Name] = nil // leads to nothing of ours any more
			}
		}
		for _, from := range listed.builtin {
			lines = append(lines, o.deletions(from)...)
		}
		foreign := o.foreignTargets()
		for _, name := range o.present() {
			if foreign[name] {
				w.Kept = append(w.Kept, place(name)+": a rule of others leads to it; it is emptied")
				if len(listed.chains[name]) == 0 {
					continue
				}
			} else {
				w.Removed = append(w.Removed, place(name))
				remove = append(remove, "-X "+name)
			}
			lines = append(lines, "-F "+name)
		}
		if lines = append(lines, remove...); len(lines) > 0 {
			Table{Name: t.Name}.write(&b, lines)
		}
	}
	return b.String()
}

// iptablesMode tells whether kube-proxy's iptables mode has written its chains: it makes
// one for each Service, and leads to that of the NodePorts even where there is none.
func iptablesMode(l listing) bool {
	for chain := range l.table(tableNAT).chains {
		if slices.ContainsFunc(leftoverPrefixes, func(prefix string) bool { return strings.HasPrefix(chain, prefix) }) {
			return true
		}
	}
	return iptablesModeWrote(l)
}

func (t Table) isJumpedTo(chain string) bool {
	return slices.ContainsFunc(t.Jumps, func(j Jump) bool { return j.To == chain })
}

func mentionsOwn(rules []string) bool {
	return slices.ContainsFunc(rules, func(rule string) bool { return strings.Contains(rule, ownPrefix) })
}

// rewrite returns the lines that fill a chain again with those of its rules that
// kube-proxy's ipvs mode understands. NodePorts are then those of every local address, as
// they are there. The rules are those that are there: the agent's flags, such as the
// cluster's ranges, are not known here.
func rewrite(chain string, rules []string, ipv6 bool) []string {
	nodeIP := "-m set --match-set " + ipsetutil.NodeIP.Name(ipv6) + " dst"
	lines := []string{"-F " + chain}
	for _, rule := range rules {
		rule = strings.ReplaceAll(rule, nodeIP, "-m addrtype --dst-type LOCAL")
		if !strings.Contains(rule, ownPrefix) {
			lines = append(lines, "-A "+chain+" "+rule)
		}
	}
	return lines
}
