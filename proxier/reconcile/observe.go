package reconcile

import (
	"context"
	"net/netip"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// observe reads the kernel and makes every key pending that is desired or ours. A
// listing that fails leaves the picture as it was, and nothing is deleted.
func (r *Reconciler) observe(ctx context.Context) error {
	seen := newObserved()
	if err := r.observeSets(ctx, &seen); err != nil {
		return err
	}
	if err := r.observeAddresses(ctx, &seen); err != nil {
		return err
	}
	if err := r.observeServers(ctx, &seen); err != nil {
		return err
	}
	r.observed = seen
	r.adoptDrains()
	r.pending.Merge(r.desired.All())
	for key := range seen.servers {
		r.pending.Servers = set(r.pending.Servers, key)
	}
	for m := range seen.members {
		r.pending.Members = set(r.pending.Members, m)
	}
	for a := range seen.bound {
		r.pending.Bound = set(r.pending.Bound, a)
	}
	for a := range seen.captured {
		r.pending.Captured = set(r.pending.Captured, a)
	}
	return nil
}

// observeSets makes missing sets and reads those that were there.
func (r *Reconciler) observeSets(ctx context.Context, seen *observed) error {
	names, err := r.doors.Sets.Names(ctx)
	if err != nil {
		return err
	}
	if err := r.createSets(ctx, names); err != nil {
		return err
	}
	for _, n := range names {
		seen.sets[n] = true
	}
	for _, s := range ipsetutil.All() {
		if !seen.sets[s.Name] {
			continue
		}
		entries, err := r.doors.Sets.Members(ctx, s.Name)
		if err != nil {
			return err
		}
		for e, mark := range entries {
			seen.members[ipsetutil.Member{Set: s.Name, Entry: e}] = mark
		}
	}
	return nil
}

func (r *Reconciler) observeAddresses(ctx context.Context, seen *observed) error {
	if err := r.doors.Addresses.Ensure(ctx); err != nil {
		return err
	}
	bound, err := r.doors.Addresses.Bound(ctx)
	if err != nil {
		return err
	}
	captured, err := r.doors.Addresses.Captured(ctx)
	if err != nil {
		return err
	}
	for _, a := range bound {
		seen.bound[a] = true
	}
	for _, a := range captured {
		seen.captured[a] = true
	}
	return nil
}

// observeServers reads the servers that are desired or ours; others do not exist
// for us. Each takes a request of its own for its real servers.
func (r *Reconciler) observeServers(ctx context.Context, seen *observed) error {
	servers, err := r.doors.IPVS.VirtualServers(ctx)
	if err != nil {
		return err
	}
	owned := newOwnership(seen)
	for _, s := range servers {
		_, wanted := r.desired.Server(s.Key)
		if !wanted && !owned.has(s.Key) {
			continue
		}
		states, err := r.doors.IPVS.RealServers(ctx, s.Key)
		if err != nil {
			return err
		}
		seen.servers[s.Key] = s
		seen.reals[s.Key] = weights(states)
	}
	return nil
}

func weights(states []ipvsutil.RealServerState) map[netip.AddrPort]uint32 {
	of := make(map[netip.AddrPort]uint32, len(states))
	for _, s := range states {
		of[s.Addr] = s.Weight
	}
	return of
}

// adoptDrains forgets drains of real servers that are gone. Those at weight 0 that
// an earlier process left are taken up when their server is compared.
func (r *Reconciler) adoptDrains() {
	for key, of := range r.drains {
		for addr := range of {
			if _, there := r.observed.reals[key][addr]; !there {
				r.drains.remove(key, addr)
			}
		}
	}
}
