package reconcile

import (
	"context"
	"slices"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// stale are the conntrack flows that are yet to be deleted. UDP and SCTP flows
// outlive the real server that they lead to, and would go on to its address.
type stale struct {
	flows map[ipvsutil.StaleFlow]struct{}
	retry attempt
}

// leftFlows notes the flows to a real server that was deleted, or, when real is the
// zero value, those of the whole server.
func (r *Reconciler) leftFlows(key ipvsutil.Key, real ipvsutil.RealServer) {
	if r.doors.Flows == nil || r.seen.protocol(key) == ipvsutil.TCP {
		return
	}
	if key.Mark == 0 {
		r.stale.flows = set(r.stale.flows, ipvsutil.StaleFlow{Frontend: key, Real: real.Addr})
		return
	}
	// The flow's destination is a frontend that bears the mark. It has an address
	// server too, with real servers of its own: only those of the mark server count.
	for e := range r.seen.bearers[key] {
		frontend := memberKey(e)
		if real.Addr.IsValid() {
			r.stale.flows = set(r.stale.flows, ipvsutil.StaleFlow{Frontend: frontend, Real: real.Addr})
			continue
		}
		for addr := range r.seen.reals[key] {
			r.stale.flows = set(r.stale.flows, ipvsutil.StaleFlow{Frontend: frontend, Real: addr})
		}
	}
}

// deleteFlows deletes the stale flows, once their real servers are gone. A failure
// is tried again, but for flows that are good again by then.
func (r *Reconciler) deleteFlows(ctx context.Context, report *Report) {
	now := time.Now()
	if len(r.stale.flows) == 0 || r.stale.retry.failures > 0 && !r.stale.retry.due(now) {
		return
	}
	flows := make([]ipvsutil.StaleFlow, 0, len(r.stale.flows))
	for f := range r.stale.flows {
		if !r.good(f) {
			flows = append(flows, f)
		}
	}
	slices.SortFunc(flows, func(a, b ipvsutil.StaleFlow) int {
		if c := a.Frontend.Compare(b.Frontend); c != 0 {
			return c
		}
		return a.Real.Compare(b.Real)
	})
	var err error
	if len(flows) > 0 {
		report.Flows, err = r.doors.Flows.DeleteFlows(ctx, flows)
		report.count("flow", "delete", err)
	}
	if err != nil {
		r.stale.retry = r.stale.retry.failed(now)
		return
	}
	r.stale = stale{}
}

// good tells flows that are served now: by the same real server, at its frontend or
// at the mark server that clients on this node are led to.
func (r *Reconciler) good(f ipvsutil.StaleFlow) bool {
	keys := []ipvsutil.Key{f.Frontend}
	m := ipsetutil.Member{
		Set: ipsetutil.ShortCircuit.Name(f.Frontend.IsIPv6()),
		Entry: ipsetutil.Entry{
			Addr: f.Frontend.Addr.Addr(), Protocol: uint8(f.Frontend.Protocol), Port: f.Frontend.Addr.Port(),
		},
	}
	if mark, ok := r.desired.Member(m); ok && mark != 0 {
		keys = append(keys, ipvsutil.MarkKey(mark, f.Frontend.IsIPv6()))
	}
	for _, key := range keys {
		if _, ok := r.seen.reals[key][f.Real]; ok && f.Real.IsValid() {
			return true
		}
	}
	return false
}
