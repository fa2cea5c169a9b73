package reconcile

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"kube-ipvs-proxy/ipvsutil"
)

// Drain is a real server at weight 0 that waits for its connections to end.
type Drain struct {
	Server ipvsutil.Key
	Real   netip.AddrPort
	// Since is when it began; Deadline is when it goes in any case,
	// zero for never.
	Since, Deadline time.Time
}

// Drains lists what drains now, sorted. Like Round it belongs to the loop's goroutine.
func (r *Reconciler) Drains() []Drain {
	var list []Drain
	for key, of := range r.drains {
		own := r.timeouts[key]
		if want, ok := r.wantServer(key); ok {
			own = want.DrainTimeout
		}
		timeout := r.drainTimeout(own)
		for addr, d := range of {
			e := Drain{Server: key, Real: addr, Since: d.since}
			if timeout >= 0 {
				e.Deadline = d.since.Add(timeout)
			}
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b Drain) int { return cmp.Or(a.Server.Compare(b.Server), a.Real.Compare(b.Real)) })
	return list
}
