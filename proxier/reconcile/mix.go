package reconcile

import (
	"cmp"
	"hash/fnv"
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
	for i, real := range reals {
		h := fnv.New64a()
		text, _ := real.Addr.MarshalBinary() // never fails
		_, _ = h.Write([]byte(r.config.NodeName))
		_, _ = h.Write(text)
		ranks[i] = ranked{h.Sum64(), real}
	}
	slices.SortFunc(ranks, func(a, b ranked) int { return cmp.Compare(a.rank, b.rank) })
	order := make([]ipvsutil.RealServer, len(ranks))
	for i := range ranks {
		order[i] = ranks[i].real
	}
	return order
}
