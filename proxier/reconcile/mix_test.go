package reconcile

import (
	"net/netip"
	"slices"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
)

// TestMixed: nodes begin with different endpoints, and each with the same at every start.
func TestMixed(t *testing.T) {
	var reals []ipvsutil.RealServer
	for i := range 8 {
		reals = append(reals, ipvsutil.RealServer{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 1, byte(i)}), 80), Weight: 1})
	}
	firsts := map[netip.AddrPort]bool{}
	for _, node := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
		r := &Reconciler{config: Config{NodeName: node}}
		order := r.mixed(reals)
		if !slices.Equal(order, r.mixed(reals)) {
			t.Errorf("node %s has two orders", node)
		}
		firsts[order[0].Addr] = true
		slices.SortFunc(order, func(a, b ipvsutil.RealServer) int { return a.Addr.Compare(b.Addr) })
		if !slices.Equal(order, reals) {
			t.Errorf("node %s has %v", node, order)
		}
	}
	if len(firsts) < 3 {
		t.Errorf("8 nodes begin with %d endpoints", len(firsts))
	}
}
