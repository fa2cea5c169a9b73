package reconcile

import (
	"context"
	"net/netip"

	"kube-ipvs-proxy/ipsetutil"
)

// compareSet corrects the picture of a set by what was read.
func (r *Reconciler) compareSet(name string, entries map[ipsetutil.Entry]uint32, outside bool) {
	differs := func(e ipsetutil.Entry) ipsetutil.Member {
		m := ipsetutil.Member{Set: name, Entry: e}
		r.pending.Members = set(r.pending.Members, m)
		if outside && r.known {
			r.damaged.Members = set(r.damaged.Members, m)
		}
		return m
	}
	for e := range r.seen.members[name] {
		if _, there := entries[e]; !there {
			r.seen.dropMember(differs(e))
		}
	}
	for e, mark := range entries {
		if have, known := r.seen.members[name][e]; !known || have != mark {
			r.seen.putMember(differs(e), mark)
		}
	}
}

// readAddresses makes the device and the policy rules if they are missing, and lists
// what is bound and captured.
func (r *Reconciler) readAddresses(ctx context.Context, report *Report, outside bool) bool {
	err := r.doors.Addresses.Ensure(ctx)
	report.count("device", "ensure", err)
	if err != nil {
		return false
	}
	bound, err := r.doors.Addresses.Bound(ctx)
	report.count("address", "list", err)
	if err != nil {
		return false
	}
	if !r.readCaptured(ctx, report, outside) {
		return false
	}
	outside = outside && r.known
	r.pending.Bound, r.damaged.Bound = compareAddrs(r.seen.bound, bound, outside, r.pending.Bound, r.damaged.Bound)
	return true
}

// readCaptured lists the routes of captured addresses.
func (r *Reconciler) readCaptured(ctx context.Context, report *Report, outside bool) bool {
	captured, err := r.doors.Addresses.Captured(ctx)
	report.count("route", "list", err)
	if err != nil {
		return false
	}
	outside = outside && r.known
	r.pending.Captured, r.damaged.Captured = compareAddrs(r.seen.captured, captured, outside, r.pending.Captured, r.damaged.Captured)
	return true
}

type addrSet = map[netip.Addr]struct{}

// compareAddrs corrects the picture by what was read, and adds what differed.
func compareAddrs(seen addrSet, read []netip.Addr, outside bool, pending, damaged addrSet) (nowPending, nowDamaged addrSet) {
	differs := func(a netip.Addr) {
		pending = set(pending, a)
		if outside {
			damaged = set(damaged, a)
		}
	}
	found := make(addrSet, len(read))
	for _, a := range read {
		found[a] = struct{}{}
		if !has(seen, a) {
			seen[a] = struct{}{}
			differs(a)
		}
	}
	for a := range seen {
		if !has(found, a) {
			delete(seen, a)
			differs(a)
		}
	}
	return pending, damaged
}
