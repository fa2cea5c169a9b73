package main

import (
	"cmp"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/moby/ipvs"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/health"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

// traffic adds up what IPVS counts, by Service. It never has more than limit Services
// of their own: those that came first, until they go; all others are one sum. A server
// that is made anew begins at zero in the kernel; the sums go on.
type traffic struct {
	limit int
	read  func() ([]*ipvs.Service, error)
	log   *slog.Logger

	mu     sync.Mutex
	owners map[ipvsutil.Key]plan.ServiceName
	last   map[ipvsutil.Key]ipvs.SvcStats
	sums   map[plan.ServiceName]*health.Traffic
	others health.Traffic
	failed bool // the last read; said once
}

func newTraffic(limit int, read func() ([]*ipvs.Service, error), log *slog.Logger) *traffic {
	return &traffic{
		limit: limit, read: read, log: log,
		last: map[ipvsutil.Key]ipvs.SvcStats{}, sums: map[plan.ServiceName]*health.Traffic{},
	}
}

// showTraffic adds the metrics of Services' traffic, if they are asked for.
func (a *agent) showTraffic(limit int, log *slog.Logger) {
	if limit == 0 {
		return
	}
	e, err := openEyes()
	if err != nil {
		log.Warn("no metrics of traffic", "err", err)
		return
	}
	a.closers = append(a.closers, func() error { e.close(); return nil })
	a.monitor.traffic = newTraffic(limit, e.counters, log)
	a.monitor.ShowTraffic(a.monitor.traffic.now)
}

// counters lists virtual servers for the sake of their counters: one that a disturbed
// list lacks keeps those that it had.
func (e *eyes) counters() ([]*ipvs.Service, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.services()
}

// own takes over whose the servers are, and forgets who is gone.
func (t *traffic) own(servers iter.Seq2[ipvsutil.Key, ledger.Server]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.owners = map[ipvsutil.Key]plan.ServiceName{}
	there := map[plan.ServiceName]bool{}
	for key, server := range servers {
		t.owners[key], there[server.Owner] = server.Owner, true
	}
	maps.DeleteFunc(t.last, func(key ipvsutil.Key, _ ipvs.SvcStats) bool { _, owned := t.owners[key]; return !owned })
	maps.DeleteFunc(t.sums, func(name plan.ServiceName, _ *health.Traffic) bool { return !there[name] })
	byName := func(a, b plan.ServiceName) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	}
	for _, name := range slices.SortedFunc(maps.Keys(there), byName) {
		if len(t.sums) >= t.limit {
			break
		}
		if t.sums[name] == nil {
			t.sums[name] = &health.Traffic{Namespace: name.Namespace, Name: name.Name}
		}
	}
}

// now reads the counters and returns the sums, those of all others last.
func (t *traffic) now() []health.Traffic {
	t.mu.Lock()
	defer t.mu.Unlock()
	services, err := t.read()
	if err != nil && !t.failed {
		t.log.Warn("counters of IPVS", "err", err)
	}
	t.failed = err != nil
	for _, s := range services {
		t.add(keyOf(s), s.Stats)
	}
	all := make([]health.Traffic, 0, len(t.sums)+1)
	for _, sum := range t.sums {
		all = append(all, *sum)
	}
	return append(all, t.others)
}

// add adds what a server has counted since the last time.
func (t *traffic) add(key ipvsutil.Key, now ipvs.SvcStats) {
	owner, ours := t.owners[key]
	if !ours {
		return
	}
	before := t.last[key]
	t.last[key] = now
	if now.BytesIn < before.BytesIn || now.BytesOut < before.BytesOut {
		before = ipvs.SvcStats{} // another server of that key
	}
	sum := t.sums[owner]
	if sum == nil {
		sum = &t.others
	}
	// Numbers of 32 bits come round: their difference is right all the same.
	sum.Connections += uint64(now.Connections - before.Connections)
	sum.PacketsIn += uint64(now.PacketsIn - before.PacketsIn)
	sum.PacketsOut += uint64(now.PacketsOut - before.PacketsOut)
	sum.BytesIn += now.BytesIn - before.BytesIn
	sum.BytesOut += now.BytesOut - before.BytesOut
}
