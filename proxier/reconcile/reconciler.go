// Package reconcile makes the kernel equal to what the ledger desires. It keeps a
// picture of what the kernel has (observed), the keys that may differ (pending),
// and turns the difference into operations in one fixed order.
//
// A round costs what changed, not what exists: only pending keys are compared. An
// operation that fails leaves its key pending and stops nothing else; what is
// desired never depends on what failed.
package reconcile

import (
	"context"
	"net/netip"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
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

// Doors are the ways into the kernel.
type Doors struct {
	IPVS      ipvsutil.IPVS
	Sets      ipsetutil.Sets
	Addresses ipvsutil.Addresses
	Rules     Rules
	Flows     Flows
}

// Config holds the reconciler's times.
type Config struct {
	// DrainTimeout is how long a TCP real server that left may keep its connections;
	// zero ends them at once, a negative value waits for ever.
	DrainTimeout time.Duration
	// DrainCheck is the time between two looks at the connections of a drain.
	DrainCheck time.Duration
}

// Reconciler is driven by one goroutine.
type Reconciler struct {
	doors    Doors
	config   Config
	desired  *ledger.Ledger
	observed observed
	pending  ledger.Touched
	// failed waits for retryAt before it becomes pending again.
	failed   ledger.Touched
	failures int
	retryAt  time.Time
	drains   drains
	// doubt: the picture may be wrong and must be read anew.
	doubt bool
	// frontends are those of each firewall-mark server for UDP, for whose flows the
	// server's own key says nothing.
	frontends map[ipvsutil.Key][]ipvsutil.Key
	// rulesWanted: the rules must be ensured; rulesDone: they once were.
	rulesWanted, rulesDone bool
}

// New returns a reconciler that has observed nothing yet: its first round reads the
// kernel and adopts what is there.
func New(doors Doors, desired *ledger.Ledger, config Config) *Reconciler {
	return &Reconciler{
		doors: doors, config: config, desired: desired,
		observed: newObserved(), drains: drains{}, frontends: map[ipvsutil.Key][]ipvsutil.Key{},
		doubt: true, rulesWanted: true,
	}
}

// Doubt has the next round read the kernel anew, rules included.
func (r *Reconciler) Doubt() { r.doubt, r.rulesWanted = true, true }

// Round brings the touched keys, and those left from earlier rounds that are due,
// to the kernel. Call it only once the first plan is complete: it deletes what is
// ours and not desired.
func (r *Reconciler) Round(ctx context.Context, touched ledger.Touched) Report {
	report := &Report{}
	r.pending.Merge(touched)
	if !r.retryAt.IsZero() && !time.Now().Before(r.retryAt) {
		r.pending.Merge(r.failed)
		r.failed, r.retryAt = ledger.Touched{}, time.Time{}
	}
	if r.doubt {
		if err := r.observe(ctx); err != nil {
			report.fail(err)
			return r.finish(report)
		}
		r.doubt = false
	}
	work := r.pending
	r.pending = ledger.Touched{}
	r.apply(ctx, report, work)
	r.endDrains(ctx, report)
	return r.finish(report)
}

// apply does one round's work in the order that keeps every prefix of it safe.
// Up: sets, their members, rules, virtual servers, real servers, addresses, so
// that no server is reachable without the entries that masquerade and filter its
// traffic, and no address is bound before its servers. Down is the reverse.
func (r *Reconciler) apply(ctx context.Context, report *Report, work ledger.Touched) {
	held := r.addMembers(ctx, report, work.Members)
	if !r.ensureRules(ctx, report) {
		r.failed.Merge(work)
		return
	}
	up, down := r.compareServers(work.Servers, held)
	missing := r.do(ctx, report, up.virtual)
	r.do(ctx, report, without(up.real, missing))
	r.bind(ctx, report, work, missing)
	r.unbind(ctx, report, work)
	r.do(ctx, report, down.real)
	stay := r.do(ctx, report, down.virtual)
	r.deleteMembers(ctx, report, work.Members, stay)
	r.deleteFlows(ctx, report, down.flows)
}

// ensureRules reports whether servers may be created: the rules are complete, or
// were once (then a failure to look again does not stop the traffic's changes).
func (r *Reconciler) ensureRules(ctx context.Context, report *Report) bool {
	if !r.rulesWanted {
		return true
	}
	changed, err := r.doors.Rules.Ensure(ctx)
	if err != nil {
		report.fail(err)
		r.retryLater()
		return r.rulesDone
	}
	if changed {
		report.Ops++
	}
	r.rulesWanted, r.rulesDone = false, true
	return true
}

func (r *Reconciler) deleteFlows(ctx context.Context, report *Report, stale []ipvsutil.StaleFlow) {
	if len(stale) == 0 || r.doors.Flows == nil {
		return
	}
	if _, err := r.doors.Flows.DeleteFlows(ctx, stale); err != nil {
		report.fail(err)
	}
}

// observed is the picture of the kernel: the same types as desired.
type observed struct {
	sets            map[string]bool
	members         map[ipsetutil.Member]uint32
	servers         map[ipvsutil.Key]ipvsutil.VirtualServer
	reals           map[ipvsutil.Key]map[netip.AddrPort]uint32 // weights
	bound, captured map[netip.Addr]bool
}

func newObserved() observed {
	return observed{
		sets:    map[string]bool{},
		members: map[ipsetutil.Member]uint32{},
		servers: map[ipvsutil.Key]ipvsutil.VirtualServer{},
		reals:   map[ipvsutil.Key]map[netip.AddrPort]uint32{},
		bound:   map[netip.Addr]bool{}, captured: map[netip.Addr]bool{},
	}
}
