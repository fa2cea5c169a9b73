package reconcile

import (
	"cmp"
	"slices"

	"kube-ipvs-proxy/ipvsutil"
)

// mixed is the order in which real servers are created: another one on each node,
// the same at each start. Round robin begins with the first, so that nodes which all
// create in the same order all send their first connections to the same endpoint. The list
// holds until the next call.
func (r *Reconciler) mixed(reals []ipvsutil.RealServer) []ipvsutil.RealServer {
	if len(reals) < 2 || r.config.NodeName == "" {
		return reals
	}
	ranks := r.ranks[:0]
	node := fnv(fnvBegin, []byte(r.config.NodeName))
	for i, real := range reals {
		addr, port := real.Addr.Addr().As16(), real.Addr.Port()
		ranks = append(ranks, ranked{fnv(fnv(node, addr[:]), []byte{byte(port), byte(port >> 8)}), i})
	}
	slices.SortFunc(ranks, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	order := r.order[:0]
	for _, one := range ranks {
		order = append(order, reals[one.at])
	}
	r.ranks, r.order = ranks, order
	return order
}

// ranked is the place that a real server, the one at an index, has in the order.
type ranked struct {
	rank uint64
	at   int
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
