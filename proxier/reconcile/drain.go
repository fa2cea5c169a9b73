package reconcile

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
)

// drain is a real server that waits at weight 0 for its connections to end.
type drain struct {
	since time.Time
	// check is when its connections are looked at next.
	check time.Time
	// kept: the kernel has since, so that it outlives this process.
	kept bool
}

// longestCheck is the longest time between two looks at a drain.
const longestCheck = 30 * time.Second

// drains holds all drains by virtual server, since the kernel lists real servers
// by virtual server.
type drains map[ipvsutil.Key]map[netip.AddrPort]drain

// add begins a drain, unless it is one.
func (d drains) add(key ipvsutil.Key, addr netip.AddrPort, check time.Duration) drain {
	if e, ok := d[key][addr]; ok {
		return e
	}
	if d[key] == nil {
		d[key] = map[netip.AddrPort]drain{}
	}
	now := time.Now()
	e := drain{since: now, check: now.Add(check)}
	d[key][addr] = e
	return e
}

// keep notes that the kernel has the begin of a drain, which may be one that another
// process began.
func (d drains) keep(key ipvsutil.Key, addr netip.AddrPort, began uint32, check time.Duration) {
	_, ours := d[key][addr]
	e := d.add(key, addr, check)
	if since := time.Unix(int64(began), 0); !ours && since.Before(e.since) {
		e.since = since
	}
	e.kept = true
	d[key][addr] = e
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

func (d drains) next(times *times) {
	for _, of := range d {
		for _, e := range of {
			times.next(e.check)
		}
	}
}

// due returns the servers with a drain to look at, sorted.
func (d drains) due(now time.Time) []ipvsutil.Key {
	var keys []ipvsutil.Key
	for key, of := range d {
		for _, e := range of {
			if !now.Before(e.check) {
				keys = append(keys, key)
				break
			}
		}
	}
	slices.SortFunc(keys, ipvsutil.Key.Compare)
	return keys
}

// idle: no connection uses the real server. Persistence counts for nothing: the
// kernel sends a client of a drained server elsewhere (expire_quiescent_template).
func idle(c ipvsutil.Connections) bool { return c.Active == 0 && c.Inactive == 0 }

// SetDrainTimeout changes Config.DrainTimeout; drains that are under way count with
// the new time.
func (r *Reconciler) SetDrainTimeout(timeout time.Duration) { r.config.DrainTimeout = timeout }

// drainTimeout is the Service's own, or the operator's.
func (r *Reconciler) drainTimeout(own *time.Duration) time.Duration {
	if own != nil {
		return *own
	}
	return r.config.DrainTimeout
}

// endDrains deletes the drains that are idle or past their deadline, and looks at
// the others again later, the less often the older they are. Servers that it took
// something from come into work.
func (r *Reconciler) endDrains(ctx context.Context, report *Report, work *ledger.Touched) {
	now := time.Now()
	var ops []ipvsutil.Op
	for _, key := range r.drains.due(now) {
		of := r.drains[key]
		for addr, e := range of {
			e.check = now.Add(min(max(r.config.DrainCheck, now.Sub(e.since)/2), longestCheck))
			of[addr] = e
		}
		states, err := r.doors.IPVS.RealServers(ctx, key)
		report.count("real_server", "list", err)
		if err != nil {
			continue
		}
		found := map[netip.AddrPort]ipvsutil.Connections{}
		for _, s := range states {
			found[s.Addr] = s.Connections
		}
		for _, addr := range slices.SortedFunc(maps.Keys(of), netip.AddrPort.Compare) {
			connections, there := found[addr]
			if !there {
				r.doubts.server(key, true)
				continue
			}
			if !r.wantsReal(key, addr) && (idle(connections) || r.past(key, of[addr].since, now)) {
				ops = append(ops, ipvsutil.Op{
					Verb:   ipvsutil.DeleteRealServer,
					Server: r.seen.servers[key], Real: ipvsutil.RealServer{Addr: addr},
				})
			}
		}
	}
	r.do(ctx, report, ops)
	for _, op := range ops {
		work.Servers = set(work.Servers, op.Server.Key)
	}
}

// wantsReal tells one that came back, and gets its weight in this round.
func (r *Reconciler) wantsReal(key ipvsutil.Key, addr netip.AddrPort) bool {
	want, _ := r.claimed(key)
	_, wanted := slices.BinarySearchFunc(want.RealServers, addr, compareReal)
	return wanted
}

// past tells whether a drain's time is over.
func (r *Reconciler) past(key ipvsutil.Key, since, now time.Time) bool {
	want, ok := r.wantServer(key)
	own := want.DrainTimeout
	if !ok {
		own = r.timeouts[key]
	}
	timeout := r.drainTimeout(own)
	return timeout >= 0 && !now.Before(since.Add(timeout))
}
