package reconcile

import (
	"context"
	"time"

	"kube-ipvs-proxy/ipsetutil"
)

// Rest is for a loop that would make a round because RetryIn has passed, and for no other
// reason: where nothing is due but a glance, and that finds all fine, it returns the time to
// wait for the next; else zero, and a round has to run. A glance is a few small requests,
// whatever the kernel holds, so that to be at rest costs next to nothing.
func (r *Reconciler) Rest(ctx context.Context) time.Duration {
	f := &r.refresh
	if !r.rests || r.doubts.any() || f.glanceAt.IsZero() {
		return 0
	}
	now, times := time.Now(), r.nextTimes()
	if !times.at.IsZero() && !now.Before(times.at) {
		return 0
	}
	if !now.Before(f.glanceAt) {
		if !r.fineAtAGlance(ctx) {
			return 0
		}
		f.glanceAt = now.Add(glancePeriod)
	}
	times.next(f.glanceAt)
	return max(times.at.Sub(now), time.Millisecond)
}

// fineAtAGlance finds that all servers are gone, or some of IPv4, or all entries of a set, or
// a set. What cannot be asked is not fine.
func (r *Reconciler) fineAtAGlance(ctx context.Context) bool {
	return r.setsAreFine(ctx) && r.serversAreFine(ctx)
}

// setsAreFine asks for one member of each set, any one.
func (r *Reconciler) setsAreFine(ctx context.Context) bool {
	r.sample = r.sample[:0]
	for name, entries := range r.seen.members {
		for e := range entries {
			r.sample = append(r.sample, ipsetutil.Member{Set: name, Entry: e})
			break
		}
	}
	if len(r.sample) == 0 {
		return true
	}
	all, err := r.doors.Sets.Holds(ctx, r.sample)
	return all && err == nil
}

// serversAreFine counts the servers of IPv4 where that can be done, of which fewer than
// there were have been deleted by somebody. Of the others it looks at one, any one: when that
// has lost all its real servers, it was hardly the only one.
func (r *Reconciler) serversAreFine(ctx context.Context) bool {
	counted := false
	if c, can := r.doors.IPVS.(Counter); can && r.refresh.counted >= 0 {
		n, err := c.CountIPv4(ctx)
		if err != nil || n < r.refresh.counted {
			return false
		}
		if counted = true; r.desired.VirtualServers(true) == 0 {
			return true
		}
	}
	for key, have := range r.seen.reals {
		if len(have) == 0 || counted && !key.IsIPv6() {
			continue
		}
		now, err := r.doors.IPVS.RealServers(ctx, key)
		return err == nil && len(now) > 0
	}
	return true
}

// setsHaveTheirSizes compares the number of members of the sets that have some. What is
// wrong with one that cannot be asked the list of all will tell.
func (r *Reconciler) setsHaveTheirSizes(ctx context.Context, report *Report) bool {
	for name, entries := range r.seen.members {
		if len(entries) == 0 {
			continue
		}
		s, ours := ipsetutil.ByName(name)
		h, err := r.doors.Sets.Header(ctx, name)
		if err != nil {
			return false
		}
		report.count("set", "list", nil)
		if int(h.Entries) != len(entries) || ours && !h.Serves(r.wantSet(s)) {
			return false
		}
	}
	return true
}
