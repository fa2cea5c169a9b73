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
// it: unbound, its connections would be dead, and answers by UDP that are under way lost.
// So new ones are made from the node's own address first, and then each address waits
// for answers, and until no process uses it, as a drain does.
type leaving map[netip.Addr]drain

// answerTime is how long an answer by UDP may be under way: what most resolvers wait for.
// No socket tells of those that are not connected.
const answerTime = 5 * time.Second

func (l leaving) next(times *times) {
	for _, d := range l {
		times.next(d.check)
	}
}

// waiting counts those that wait for answers alone.
func (l leaving) waiting(now time.Time) int {
	n := 0
	for _, d := range l {
		if now.Before(d.since.Add(answerTime)) {
			n++
		}
	}
	return n
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
	now := time.Now()
	var fresh, captured []netip.Addr
	for _, a := range addrs {
		if !r.wantCaptured(a) || r.config.DrainTimeout == 0 {
			continue
		}
		if _, known := r.leaving[a]; known {
			captured = append(captured, a)
		} else {
			fresh = append(fresh, a)
			r.leaving[a] = drain{since: now, check: now.Add(answerTime)}
		}
	}
	r.leave(ctx, report, fresh)
	var used []netip.Addr
	if len(captured) > 0 {
		var err error
		used, err = r.doors.Addresses.InUse(ctx, captured)
		report.count("connection", "list", err)
	}
	return slices.DeleteFunc(addrs, func(a netip.Addr) bool {
		d, leaving := r.leaving[a]
		if !leaving {
			return false
		}
		over := r.config.DrainTimeout > 0 && !now.Before(d.since.Add(r.config.DrainTimeout))
		switch {
		case !over && now.Before(d.since.Add(answerTime)):
		case over || !slices.Contains(used, a):
			delete(r.leaving, a)
			return false
		default:
			d.check = now.Add(min(max(r.config.DrainCheck, now.Sub(d.since)/2), longestCheck))
			r.leaving[a] = d
		}
		return true
	})
}

// leave has processes ask the addresses from the node's own from now on. Where that
// fails, some answer may be lost when the address goes.
func (r *Reconciler) leave(ctx context.Context, report *Report, addrs []netip.Addr) {
	if len(addrs) == 0 {
		return
	}
	errs := r.doors.Addresses.Leave(ctx, addrs)
	for i := range addrs {
		var err error
		if errs != nil {
			err = errs[i]
		}
		report.count("address", "update", err)
	}
}
