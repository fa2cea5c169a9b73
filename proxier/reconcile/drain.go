package reconcile

import (
	"context"
	"net/netip"
	"time"

	"kube-ipvs-proxy/ipvsutil"
)

// drain is a real server that waits at weight 0 for its connections to end.
type drain struct {
	// deadline is when it ends whatever it has; zero means never.
	deadline time.Time
	// check is when its connections are looked at next.
	check time.Time
}

// drains holds all drains by virtual server, since the kernel lists real servers
// by virtual server.
type drains map[ipvsutil.Key]map[netip.AddrPort]drain

// add begins a drain, unless it is one.
func (d drains) add(key ipvsutil.Key, addr netip.AddrPort, config Config) {
	if _, ok := d[key][addr]; ok {
		return
	}
	if d[key] == nil {
		d[key] = map[netip.AddrPort]drain{}
	}
	now := time.Now()
	entry := drain{check: now.Add(config.DrainCheck)}
	if config.DrainTimeout > 0 {
		entry.deadline = now.Add(config.DrainTimeout)
	}
	d[key][addr] = entry
}

func (d drains) remove(key ipvsutil.Key, addr netip.AddrPort) {
	delete(d[key], addr)
	if len(d[key]) == 0 {
		delete(d, key)
	}
}

func (d drains) len() int {
	n := 0
	for _, of := range d {
		n += len(of)
	}
	return n
}

// next is the time of the earliest check, or zero.
func (d drains) next() time.Time {
	var next time.Time
	for _, of := range d {
		for _, e := range of {
			if next.IsZero() || e.check.Before(next) {
				next = e.check
			}
		}
	}
	return next
}

// endDrains deletes the drains that are idle or past their deadline, and looks at
// the others again later.
func (r *Reconciler) endDrains(ctx context.Context, report *Report) {
	now := time.Now()
	for key, of := range r.drains {
		if !due(of, now) {
			continue
		}
		states, err := r.doors.IPVS.RealServers(ctx, key)
		if err != nil {
			report.fail(err)
		}
		var ops []ipvsutil.Op
		for _, s := range states {
			entry, draining := of[s.Addr]
			if !draining {
				continue
			}
			past := !entry.deadline.IsZero() && !now.Before(entry.deadline)
			if s.Connections.Idle() || past {
				ops = append(ops, ipvsutil.Op{
					Verb:   ipvsutil.DeleteRealServer,
					Server: r.observed.servers[key], Real: ipvsutil.RealServer{Addr: s.Addr},
				})
			}
		}
		for addr, entry := range of {
			entry.check = now.Add(r.config.DrainCheck)
			of[addr] = entry
		}
		r.do(ctx, report, ops)
	}
}

func due(of map[netip.AddrPort]drain, now time.Time) bool {
	for _, e := range of {
		if !now.Before(e.check) {
			return true
		}
	}
	return false
}
