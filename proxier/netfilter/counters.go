package netfilter

import (
	"slices"
	"strconv"
	"strings"
)

// Counter is how often a rule of the static layer matched since it was written. One
// rule serves all members of its set, so it counts for all Services together.
type Counter struct {
	// Chain is the table and the chain, such as "filter KIPVS-FRONTENDS"; Set is what
	// the rule matches.
	Chain, Set string
	Packets    uint64
}

// splitCounters turns what iptables-save -c printed into what it prints without -c,
// and the counters of rules that match a set.
func splitCounters(counted string) (plain string, counters []Counter) {
	var b strings.Builder
	table := ""
	for line := range strings.Lines(counted) {
		if name, ok := strings.CutPrefix(line, "*"); ok {
			table = strings.TrimSpace(name)
		}
		count, rule, ok := strings.Cut(line, "] -A ")
		if !ok || !strings.HasPrefix(count, "[") {
			b.WriteString(line)
			continue
		}
		b.WriteString("-A " + rule)
		number, _, _ := strings.Cut(count[1:], ":")
		packets, err := strconv.ParseUint(number, 10, 64)
		words := strings.Fields(rule)
		at := slices.Index(words, "--match-set")
		if err != nil || at < 0 || at+1 == len(words) {
			continue
		}
		counters = append(counters, Counter{Chain: table + " " + words[0], Set: words[at+1], Packets: packets})
	}
	return b.String(), counters
}
