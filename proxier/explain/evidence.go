package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// Evidence is what packets left behind in the kernel.
type Evidence struct {
	// Counters are those of rules that match a set.
	Counters []Counter
	// Connections counts those of IPVS by frontend and state. That of a packet through a
	// firewall-mark server is under the address that the client used. Nil: could not be read.
	Connections map[ipvsutil.Key]map[string]int
	// Flows are those of conntrack.
	Flows []Flow
}

// Counter is how many packets a rule matched, of all members of its set together.
type Counter struct {
	// Chain is the table and the chain, Set what the rule matches.
	Chain, Set string
	Packets    uint64
}

// evidence says what of this way was seen to be used.
func (t *traveller) evidence() {
	e := t.node.Evidence
	if e == nil {
		return
	}
	if counted := t.counted(e); len(counted) > 0 {
		t.path.step("counted", "packets by chain and set, of all members of the set: "+strings.Join(counted, "; "))
	}
	t.path.step("seen", t.connections(e)+"; "+t.flows(e))
}

// counted are the rules that match a set of this frontend and saw packets. Rules of one
// chain and set count together.
func (t *traveller) counted(e *Evidence) []string {
	var order []Counter
	for _, c := range e.Counters {
		if c.Packets == 0 || !slices.ContainsFunc(t.frontend.Members, func(m ipsetutil.Member) bool { return m.Set == c.Set }) {
			continue
		}
		if last := len(order) - 1; last >= 0 && order[last].Chain == c.Chain && order[last].Set == c.Set {
			order[last].Packets += c.Packets
		} else {
			order = append(order, c)
		}
	}
	var words []string
	for _, c := range order {
		words = append(words, fmt.Sprintf("%s %s %d", c.Chain, c.Set, c.Packets))
	}
	return words
}

func (t *traveller) connections(e *Evidence) string {
	states := e.Connections[t.key]
	switch {
	case e.Connections == nil:
		return "the connections of IPVS could not be read"
	case len(states) == 0:
		return "no connection in IPVS"
	}
	var words []string
	for _, state := range slices.Sorted(maps.Keys(states)) {
		words = append(words, fmt.Sprintf("%d %s", states[state], state))
	}
	return "in IPVS " + strings.Join(words, ", ")
}

func (t *traveller) flows(e *Evidence) string {
	all, unanswered := 0, 0
	for _, f := range e.Flows {
		if f.Frontend == t.key {
			all++
			if f.Unanswered {
				unanswered++
			}
		}
	}
	switch {
	case all == 0:
		return "none in conntrack"
	case unanswered > 0:
		return fmt.Sprintf("%d in conntrack, %d of them without an answer so far", all, unanswered)
	}
	return fmt.Sprintf("%d in conntrack", all)
}
