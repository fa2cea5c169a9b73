package reconcile

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/proxier/ledger"
)

// leaving are addresses that another proxy, or an earlier run of this one, bound and that
// are only captured now. A process of the node that talks to such an address talks from
// it: unbound, its connections would be dead. New ones are from the node's own address
// once it is unbound. So each waits until no process uses it, as a drain does.
type leaving map[netip.Addr]drain

func (l leaving) next(times *times) {
	for _, d := range l {
		times.next(d.check)
	}
}

// lookAtLeaving has addresses looked at that are due, and with them the entries that
// they keep.
func (r *Reconciler) lookAtLeaving(work *ledger.Touched) {
	now := time.Now()
	for a, d := range r.leaving {
		switch {
		case !has(r.seen.bound, a) || r.wantBound(a):
			delete(r.leaving, a)
		case !now.Before(d.check):
			work.Bound = set(work.Bound, a)
		default:
			continue
		}
		work.Members = set(work.Members, ipsetutil.Member{Set: ipsetutil.IPVSIPs.Name(a.Is6()), Entry: ipsetutil.Entry{Addr: a}})
	}
}

// unused returns the addresses to unbind now: those that no process uses, or for longer
// than a drain may last. What cannot be found out is no reason to keep an address.
func (r *Reconciler) unused(ctx context.Context, report *Report, addrs []netip.Addr) []netip.Addr {
	var captured []netip.Addr
	for _, a := range addrs {
		if r.wantCaptured(a) && r.config.DrainTimeout != 0 {
			captured = append(captured, a)
		}
	}
	if len(captured) == 0 {
		return addrs
	}
	used, err := r.doors.Addresses.InUse(ctx, captured)
	report.count("connection", "list", err)
	now := time.Now()
	return slices.DeleteFunc(addrs, func(a netip.Addr) bool {
		d, known := r.leaving[a]
		if !known {
			d.since = now
		}
		over := r.config.DrainTimeout >= 0 && !now.Before(d.since.Add(r.config.DrainTimeout))
		if over || !slices.Contains(used, a) {
			delete(r.leaving, a)
			return false
		}
		d.check = now.Add(min(max(r.config.DrainCheck, now.Sub(d.since)/2), longestCheck))
		r.leaving[a] = d
		return true
	})
}
