package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

// Flow is a flow in conntrack: where a client sent it, and who answers. A flow to a
// frontend that nobody serves has the frontend itself as Real.
type Flow struct {
	Frontend ipvsutil.Key
	Real     netip.AddrPort
	// Unanswered: it is TCP and no answer to its first packet was seen.
	Unanswered bool
}

// StaleFlows finds flows without connections (UDP, SCTP) that do not lead to a real
// server of their frontend: such a client goes on sending into the void, since every
// packet renews the flow.
func StaleFlows(desired *ledger.Ledger, flows []Flow) []Difference {
	stale := map[Flow]int{}
	for _, f := range flows {
		want, ok := desired.Server(f.Frontend)
		if ok && f.Frontend.Protocol != ipvsutil.TCP && !serves(desired, want, f.Real) {
			stale[Flow{Frontend: f.Frontend, Real: f.Real}]++
		}
	}
	var found []Difference
	for f, n := range stale {
		want, _ := desired.Server(f.Frontend)
		found = append(found, Difference{
			Kind: "flow", Object: f.Frontend.String() + " -> " + f.Real.String(), Service: want.Owner.String(),
			Want: nothing, Have: fmt.Sprintf("%d in conntrack", n), key: f.Frontend,
			Means: "clients that keep their source port go on to what is no endpoint: nothing answers",
		})
	}
	slices.SortFunc(found, func(a, b Difference) int { return strings.Compare(a.Object, b.Object) })
	return found
}

// serves tells whether the real server is one of the frontend, or of the mark server
// that clients on this node are led to, or still serves although it was not chosen.
func serves(desired *ledger.Ledger, want ledger.Server, real netip.AddrPort) bool {
	servers := []ledger.Server{want}
	if mark, ok := desired.Member(plan.MemberOf(ipsetutil.ShortCircuit, want.Key)); ok && mark != 0 {
		if s, ok := desired.Server(ipvsutil.MarkKey(mark, want.Key.IsIPv6())); ok {
			servers = append(servers, s)
		}
	}
	return slices.ContainsFunc(servers, func(s ledger.Server) bool {
		return slices.Contains(s.Serving, real) ||
			slices.ContainsFunc(s.RealServers, func(r ipvsutil.RealServer) bool { return r.Addr == real })
	})
}
