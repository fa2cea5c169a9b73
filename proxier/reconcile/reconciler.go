// Package reconcile makes the kernel equal to what the ledger desires. It keeps a
// picture of what the kernel has, the keys that may differ (pending), and turns the
// difference into operations in one fixed order.
//
// A round costs what changed, not what exists: only pending keys are compared. An
// operation that fails leaves its key pending and stops nothing else; what is
// desired never depends on what failed.
package reconcile

import (
	"context"
	"slices"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

// Rules is the door to the static rules.
type Rules interface {
	// Ensure makes the rules complete and reports whether it had to write.
	Ensure(ctx context.Context) (changed bool, err error)
}

// Flows is the door to conntrack.
type Flows interface {
	// DeleteFlows removes the flows of clients of a frontend to a real server that
	// serves it no more, and returns how many there were.
	DeleteFlows(ctx context.Context, stale []ipvsutil.StaleFlow) (int, error)
}

// Doors are the ways into the kernel. Without Flows no flow is deleted, without Others
// nothing of another proxy but what Rules knows.
type Doors struct {
	IPVS      ipvsutil.IPVS
	Sets      ipsetutil.Sets
	Addresses ipvsutil.Addresses
	Rules     Rules
	Flows     Flows
	Others    Others
}

// Config holds the reconciler's times.
type Config struct {
	// DrainTimeout is how long a real server that left may keep its connections, and
	// a virtual server that nobody claims any more too; zero ends them at once, a
	// negative value waits for ever.
	DrainTimeout time.Duration
	// DrainCheck is the time from a drain's begin to the first look at its
	// connections.
	DrainCheck time.Duration
	// SyncPeriod is the time between two looks at the number of virtual servers, the
	// sizes of sets and the routes, which find what others changed. Zero means 30
	// seconds, a negative value never.
	SyncPeriod time.Duration
	// RefreshPeriod is the time in which every real server and every entry is read
	// once, the rules and the bound addresses too. Zero means ten minutes, a negative
	// value never.
	RefreshPeriod time.Duration
	// ListBound: nobody calls Unbound or DeviceLost when addresses go, so that they are
	// listed each SyncPeriod.
	ListBound bool
	// SetSize is the size that hash sets are made with, and the least that one may
	// have; zero means kube-proxy's, 65,536. They grow by themselves.
	SetSize uint32
	// NodeName gives the node its own order of real servers; empty: that of addresses.
	NodeName string
	// First is the Service that is programmed completely before all others; it is
	// that of the API server, which everything else on the node waits for. The zero
	// value means none.
	First plan.ServiceName
}

// Reconciler is driven by one goroutine.
type Reconciler struct {
	doors   Doors
	config  Config
	desired *ledger.Ledger
	seen    picture
	// known: seen was read completely once; settled: everything was right once.
	known, settled bool
	doubts         doubts
	// pending keys are worked on in the next round, waiting ones in every round: they
	// wait for another key that fails. failing keys wait for their time.
	pending, waiting ledger.Touched
	failing          failing
	// failed are the keys that failed in this round.
	failed  ledger.Touched
	damaged damage
	// bare: this is the first pass of a first round, and the kernel had nothing of ours: all
	// that is there was wanted a moment ago, and nothing has to go.
	bare    bool
	drains  drains
	lingers lingers
	// shielded are the frontends whose server could not be created.
	shielded map[ipvsutil.Key]bool
	// timeouts are drain timeouts of Services' own, by server; kept while it exists.
	timeouts map[ipvsutil.Key]*time.Duration
	stale    stale
	rules    rules
	others   others
	leaving  leaving
	refresh  refresh
	// rests: the last round left nothing undone. sample is used by each glance.
	rests  bool
	sample []ipsetutil.Member
	ops    []ipvsutil.Op // of raise, to be used again in the same round
	ranks  []ranked      // of mixed
	order  []ipvsutil.RealServer
}

// New returns a reconciler that has observed nothing yet: its first round reads the
// kernel and adopts what is there.
func New(doors Doors, desired *ledger.Ledger, config Config) *Reconciler {
	return &Reconciler{
		doors: doors, config: config, desired: desired,
		seen: newPicture(), failing: newFailing(), drains: drains{}, lingers: newLingers(),
		timeouts: map[ipvsutil.Key]*time.Duration{}, shielded: map[ipvsutil.Key]bool{}, leaving: leaving{},
		doubts: doubts{all: true}, rules: rules{wanted: true}, refresh: newRefresh(config),
	}
}

// Round brings the touched keys, and those left from earlier rounds that are due,
// to the kernel. Call it only once the first plan is complete: it deletes what is
// ours and not desired.
func (r *Reconciler) Round(ctx context.Context, touched ledger.Touched) Report {
	report := &Report{}
	first := !r.known
	if !first { // until then everything is pending
		r.pending.Merge(touched)
	}
	r.failing.forget(touched)
	if !r.settleDoubts(ctx, report) {
		return r.finish(report)
	}
	if first {
		r.bare = r.pending.Len() == 0
		all := r.desired.All()
		all.Merge(r.pending)
		r.pending = all
		r.seen.expect(all)
		r.askOthers(ctx, report)
	}
	r.look(ctx, report, touched.Len() > 0)
	work := r.take()
	r.endDrains(ctx, report, &work)
	r.lookAtLeaving(&work)
	r.apply(ctx, report, &work)
	r.bare = false
	if r.doubts.any() && r.doubts.retry.failures == 0 {
		r.again(ctx, report, &work)
	}
	if first {
		r.refresh.start(time.Now()) // what was just written need not be read
	}
	r.deleteFlows(ctx, report)
	r.failing.settle(work, r.failed, time.Now())
	r.damaged.settle(report, work, r.failed, r.waiting)
	return r.finish(report)
}

// take collects the keys of this round.
func (r *Reconciler) take() ledger.Touched {
	work := r.pending
	work.Merge(r.waiting)
	r.failing.due(time.Now(), &work)
	r.pending, r.waiting, r.failed = ledger.Touched{}, ledger.Touched{}, ledger.Touched{}
	return work
}

// apply does one pass in the order that keeps every prefix of it safe. Up: sets,
// their members, rules, virtual and real servers, addresses, so that no server is
// reachable without the entries that masquerade and filter its traffic, and no
// address is bound before its servers. Down is the reverse. Where the rules of another
// proxy serve the node, ours take their place after the addresses.
func (r *Reconciler) apply(ctx context.Context, report *Report, work *ledger.Touched) {
	r.leadToMarks(work)
	r.postpone(work)
	if !r.bare {
		r.lingerChanges(ctx, report, work)
	}
	first, rest := r.split(*work)
	if first.Len() > 0 {
		r.build(ctx, report, &first)
		rest.Merge(first)
	}
	done := r.build(ctx, report, &rest)
	*work = rest
	if done {
		r.removeOthers(ctx, report)
		r.clear(ctx, report, rest)
	}
}

// split takes out what the first Service needs.
func (r *Reconciler) split(work ledger.Touched) (first, rest ledger.Touched) {
	if r.config.First == (plan.ServiceName{}) || r.rulesLast() {
		return ledger.Touched{}, work
	}
	claimed := r.desired.Claimed(r.config.First)
	first.Servers, rest.Servers = parted(work.Servers, claimed.Servers)
	first.Members, rest.Members = parted(work.Members, claimed.Members)
	first.Bound, rest.Bound = parted(work.Bound, claimed.Bound)
	first.Captured, rest.Captured = parted(work.Captured, claimed.Captured)
	return first, rest
}

// parted returns the keys that are in both, and all keys: what the first have made
// right costs the rest nothing.
func parted[K comparable](keys, wanted map[K]struct{}) (both, all map[K]struct{}) {
	for key := range wanted {
		if has(keys, key) {
			both = set(both, key)
		}
	}
	return both, keys
}

// serversAtOnce bounds how many servers are turned into operations at once, which
// take more memory than all that is known of them.
const serversAtOnce = 500

// build does the way up. It reports whether the rules are there; without them
// everything waits.
func (r *Reconciler) build(ctx context.Context, report *Report, work *ledger.Touched) bool {
	there := r.there(*work)
	r.addMembers(ctx, report, work.Members, func(m ipsetutil.Member) bool {
		return !isException(m) || !there.hasMember(m)
	})
	if !r.bare {
		r.deleteEarly(ctx, report, work.Members)
	}
	last := r.rulesLast()
	if !last && !r.ensureRules(ctx, report) {
		r.waiting.Merge(*work)
		return false
	}
	for keys := range slices.Chunk(sortedKeys(work.Servers), serversAtOnce) {
		r.do(ctx, report, r.raise(keys))
	}
	r.ops = nil
	r.shield(ctx, report, work)
	r.bind(ctx, report, *work)
	if last && !r.ensureRules(ctx, report) {
		r.waiting.Merge(*work)
		return false
	}
	return true
}

// clear does the way down, and then adds the exceptions of frontends in use.
func (r *Reconciler) clear(ctx context.Context, report *Report, work ledger.Touched) {
	if !r.bare {
		r.unbind(ctx, report, work)
		r.do(ctx, report, r.lower(work.Servers))
	}
	stay := newFrontends()
	for key := range r.troubled() {
		if has(r.failed.Servers, key) || !has(work.Servers, key) {
			stay.addServer(key, nil)
		}
	}
	r.addMembers(ctx, report, onlyExceptions(work.Members), func(m ipsetutil.Member) bool {
		if stay.hasMember(m) {
			r.waiting.Members = set(r.waiting.Members, m)
			return false
		}
		return true
	})
	if !r.bare {
		r.deleteLate(ctx, report, work.Members)
	}
}
