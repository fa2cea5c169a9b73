package reconcile

import (
	"context"
	"slices"
	"time"

	"kube-ipvs-proxy/ipvsutil"
)

// The periods when the configuration has none.
const (
	defaultSync    = 30 * time.Second
	defaultRefresh = 10 * time.Minute
)

// spreadEvery is the least time between two readings of the spread refresh.
const spreadEvery = time.Second

// glancePeriod is the time between two glances; see glance.
const glancePeriod = 5 * time.Second

// refresh finds what others changed: a glance each few seconds; sizes of sets, routes and the
// number of servers each SyncPeriod; lists of all sets, addresses and servers once in a
// RefreshPeriod, and one after another all that takes a request of its own, so that each is
// read once in that time and the load is even.
type refresh struct {
	sync, full time.Duration
	glanceAt   time.Time
	listAt     time.Time
	spreadAt   time.Time
	rulesAt    time.Time
	// wholeAt is when all sets and addresses are listed.
	wholeAt time.Time
	// counted is the number of virtual servers of IPv4 that there should be: when they were
	// listed last, and what we made and deleted since; below zero when that is not known.
	// At allAt they are listed whatever their number.
	counted int
	allAt   time.Time
	// servers and sets are those not yet read in this period.
	servers []ipvsutil.Key
	sets    []string
	// every is the time between two readings, each of count items.
	every time.Duration
	count int
}

func newRefresh(config Config) refresh {
	period := func(configured, standard time.Duration) time.Duration {
		if configured == 0 {
			return standard
		}
		return max(configured, 0)
	}
	return refresh{
		sync: period(config.SyncPeriod, defaultSync), full: period(config.RefreshPeriod, defaultRefresh),
		counted: -1,
	}
}

// start begins the periods after the first complete reading.
func (f *refresh) start(now time.Time) {
	if f.sync > 0 {
		f.listAt = now.Add(f.sync)
		f.glanceAt = now.Add(glancePeriod)
	}
	if f.full > 0 {
		f.rulesAt = now.Add(f.full)
		f.wholeAt = now.Add(f.full)
		f.spreadAt = now.Add(spreadEvery)
	}
}

// next is the time of the next look, glances aside.
func (f *refresh) next(times *times) {
	times.next(f.listAt)
	times.next(f.spreadAt)
	times.next(f.rulesAt)
}

// look does what is due. A round that has something to bring to the kernel puts it
// off, but for no longer than a period.
func (r *Reconciler) look(ctx context.Context, report *Report, busy bool) {
	f := &r.refresh
	now := time.Now()
	late := func(at time.Time, by time.Duration) bool { return !at.IsZero() && !now.Before(at.Add(by)) }
	patience := time.Duration(0)
	if busy {
		patience = f.sync
	}
	if late(f.rulesAt, patience) {
		f.rulesAt = now.Add(f.full)
		r.rules.wanted = true
	}
	if late(f.glanceAt, patience) {
		f.glanceAt = now.Add(glancePeriod)
		if !r.fineAtAGlance(ctx) {
			f.listAt = now
		}
	}
	if late(f.listAt, patience) {
		f.listAt = now.Add(f.sync)
		r.list(ctx, report, now)
	}
	if late(f.spreadAt, patience) {
		r.readSome(ctx, report, now)
	}
}

// list finds in each SyncPeriod what a request or two tell of very many things: the sizes of
// the sets that have members, the routes, the number of virtual servers. Bound addresses are
// listed in a RefreshPeriod, unless nobody tells of those that go.
func (r *Reconciler) list(ctx context.Context, report *Report, now time.Time) {
	f := &r.refresh
	whole := !f.wholeAt.IsZero() && !now.Before(f.wholeAt)
	if whole {
		f.wholeAt = now.Add(f.full)
	}
	if whole || !r.setsHaveTheirSizes(ctx, report) {
		r.readSets(ctx, report, false, nil)
	}
	switch {
	case whole || r.config.ListBound:
		r.readAddresses(ctx, report, true)
	case len(r.seen.captured) > 0:
		r.readCaptured(ctx, report, true)
	}
	r.lookAtServers(ctx, report, now)
}

// Counter is an IPVS door that can tell, without listing them, how many virtual servers
// of IPv4 the kernel has, ours and others'.
type Counter interface {
	CountIPv4(ctx context.Context) (int, error)
}

// lookAtServers lists the virtual servers. Where there are none of IPv6 and as many of
// IPv4 as last time, nobody has flushed or deleted them, and the list is made once in a
// refresh period, if there is any: it tells who changed one, or made another in the place
// of one of ours.
func (r *Reconciler) lookAtServers(ctx context.Context, report *Report, now time.Time) {
	f := &r.refresh
	count := -1
	if c, can := r.doors.IPVS.(Counter); can && r.desired.VirtualServers(true) == 0 {
		n, err := c.CountIPv4(ctx)
		report.count("virtual_server", "list", err)
		if err == nil {
			count = n
		}
	}
	if count >= 0 && count == f.counted && (f.full == 0 || now.Before(f.allAt)) {
		return
	}
	r.readServers(ctx, report, false, nil)
}

// follow counts what we did to virtual servers of IPv4.
func (f *refresh) follow(op ipvsutil.Op) {
	if f.counted < 0 || op.Server.Key.IsIPv6() {
		return
	}
	switch op.Verb {
	case ipvsutil.CreateVirtualServer:
		f.counted++
	case ipvsutil.DeleteVirtualServer:
		f.counted--
	}
}

// listed takes down that the virtual servers were listed.
func (f *refresh) listed(found map[ipvsutil.Key]ipvsutil.VirtualServer) {
	f.counted, f.allAt = 0, time.Now().Add(f.full)
	for key := range found {
		if !key.IsIPv6() {
			f.counted++
		}
	}
}

// readSome reads the next few of all that is read one by one.
func (r *Reconciler) readSome(ctx context.Context, report *Report, now time.Time) {
	f := &r.refresh
	if len(f.servers)+len(f.sets) == 0 {
		r.refill()
	}
	for range f.count {
		switch {
		case len(f.sets) > 0:
			r.readSet(ctx, report, f.sets[0], true)
			f.sets = f.sets[1:]
		case len(f.servers) > 0:
			if key := f.servers[0]; hasServer(&r.seen, key) {
				r.readReals(ctx, report, key, true)
			}
			f.servers = f.servers[1:]
		}
	}
	f.spreadAt = now.Add(f.every)
}

// refill begins a new period: all sets with members and all servers, in one order,
// so that the one read longest ago is next.
func (r *Reconciler) refill() {
	f := &r.refresh
	f.sets, f.servers = nil, nil
	for name, members := range r.seen.members {
		if len(members) > 0 {
			f.sets = append(f.sets, name)
		}
	}
	for key := range r.seen.servers {
		f.servers = append(f.servers, key)
	}
	slices.Sort(f.sets)
	slices.SortFunc(f.servers, ipvsutil.Key.Compare)
	n := max(len(f.sets)+len(f.servers), 1)
	f.count = int((time.Duration(n)*spreadEvery + f.full - 1) / f.full)
	f.every = f.full * time.Duration(f.count) / time.Duration(n)
}

func hasServer(p *picture, key ipvsutil.Key) bool {
	_, ok := p.servers[key]
	return ok
}
