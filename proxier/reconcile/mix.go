package reconcile

import (
	"cmp"
	"slices"

	"kube-ipvs-proxy/ipvsutil"
)

// mixed is the order in which real servers are created: another one on each node,
// the same at each start. Round robin begins with the first, so that nodes which all
// create in the same order all send their first connections to the same endpoint.
func (r *Reconciler) mixed(reals []ipvsutil.RealServer) []ipvsutil.RealServer {
	if len(reals) < 2 || r.config.NodeName == "" {
		return reals
	}
	type ranked struct {
		rank uint64
		real ipvsutil.RealServer
	}
	ranks := make([]ranked, len(reals))
	node := fnv(fnvBegin, []byte(r.config.NodeName))
	for i, real := range reals {
		addr, port := real.Addr.Addr().As16(), real.Addr.Port()
		ranks[i] = ranked{fnv(fnv(node, addr[:]), []byte{byte(port), byte(port >> 8)}), real}
	}
	slices.SortFunc(ranks, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	order := make([]ipvsutil.RealServer, len(ranks))
	for i := range ranks {
		order[i] = ranks[i].real
	}
	return order
}

// fnvBegin is the hash of nothing.
const fnvBegin uint64 = 0xcbf29ce484222325

// fnv goes on with a hash (FNV-1a, 64 bits) without memory of its own.
func fnv(h uint64, text []byte) uint64 {
	for _, b := range text {
		h = (h ^ uint64(b)) * 0x100000001b3
	}
	return h
}
