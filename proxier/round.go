package proxier

import (
	"context"
	"time"

	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/reconcile"
)

// Summary is what one round did and what it left.
type Summary struct {
	reconcile.Report
	// Dirty counts the Services that were planned, Panics those of them whose planning
	// panicked.
	Dirty, Panics int
	// Planned is the time until all was planned, Took that of the whole round.
	Planned, Took time.Duration
	// Conflicts counts frontends that several Services claim, LocalOnly the Services
	// whose clients on this node reach only endpoints on it for want of a mark, and
	// Problems the parts of Services that cannot be served.
	Conflicts, LocalOnly, Problems int
	// Unread is what the round could not read, or nil: the node's addresses, and at the
	// start the marks that the kernel has. Without them the first plan is not made;
	// later ones go on with the addresses known.
	Unread error
}

// Complete tells that nothing is left undone: the kernel equals the plan. Drains and
// Services that cannot be served are not undone work.
func (s Summary) Complete() bool {
	return s.Unread == nil && s.Pending == 0 && s.Failures == 0 && s.Panics == 0
}

// hostRetry is the time after which a failed listing of the host's addresses, or of
// the marks that the kernel has, is repeated.
const hostRetry = time.Second

// work does one round: what is dirty is planned, recorded and brought to the kernel.
func (p *Proxier) work(ctx context.Context) Summary {
	if p.config.Begin != nil {
		p.config.Begin()
	}
	start := time.Now()
	dirty := p.source.Drain()
	if dirty.Revision != "" {
		p.revision = dirty.Revision
	}
	s := Summary{Unread: p.refreshNode(ctx, &dirty)}
	if !p.planned && s.Unread == nil {
		s.Unread = p.adoptMarks(ctx)
	}
	if !p.planned && s.Unread != nil {
		// The names are not lost: the first plan is of all Services.
		s.RetryIn = hostRetry
		return p.end(s, start)
	}
	names := dirty.Services
	if !p.planned { // nothing is known that could have gone
		names = p.source.Names()
		p.log.Info("source read", "services", len(names), "took", start.Sub(p.created).Round(time.Microsecond))
		p.ledger.Expect(len(names))
	} else if dirty.All {
		names = union(p.source.Names(), p.ledger.Names(), names)
	} else if again := p.panicked.due(start); len(again) > 0 {
		names = union(names, again)
	}
	touched, panics := p.record(names, dirty.All)
	s.Dirty, s.Panics, s.Planned = len(names), panics, time.Since(start)
	p.reserved.note(p.ledger, touched)
	s.Report = p.kernel.Round(ctx, touched)
	p.reserved.keep(ctx)
	p.loopback.tell(p.config.Loopback)
	if s.Unread != nil {
		s.RetryIn = sooner(s.RetryIn, hostRetry)
	}
	if next := p.panicked.next(); !next.IsZero() {
		s.RetryIn = sooner(s.RetryIn, time.Until(next))
	}
	conflicts, localOnly := p.ledger.Conflicts(), p.ledger.LocalOnly()
	p.problems.conflicts(conflicts)
	p.problems.localOnly(localOnly)
	s.Conflicts, s.LocalOnly, s.Problems = len(conflicts), len(localOnly), p.problems.count
	return p.end(s, start)
}

func (p *Proxier) end(s Summary, start time.Time) Summary {
	s.Took = time.Since(start)
	p.complete = s.Complete()
	p.tell(s)
	if p.config.End != nil {
		p.config.End(s)
	}
	return s
}

// sooner is the earlier of two waits, of which the first may be zero for none.
func sooner(wait, other time.Duration) time.Duration {
	other = max(other, time.Millisecond)
	if wait == 0 {
		return other
	}
	return min(wait, other)
}

// record plans the named Services, and the node if it changed, and returns what that
// touched. What the first plan touches nobody needs: it is everything.
func (p *Proxier) record(names []plan.ServiceName, node bool) (touched ledger.Touched, panics int) {
	if !p.planned {
		p.planNode(nil)
		panics = p.planAll(names, nil)
		return nodePortMembers(p.ledger), panics
	}
	if node {
		p.planNode(&touched)
	}
	panics = p.planAll(names, &touched)
	return touched, panics
}

// planNode records what the node itself claims.
func (p *Proxier) planNode(touched *ledger.Touched) {
	p.ledger.ReplaceInto(touched, ledger.Owner{}, plan.ForNode(p.node))
}

// planAll plans the named Services, and those for which a mark came free by that,
// and records what they claim.
func (p *Proxier) planAll(names []plan.ServiceName, touched *ledger.Touched) (panics int) {
	for _, list := range []func() []plan.ServiceName{
		func() []plan.ServiceName { return names }, p.ledger.Promotable,
	} {
		for _, name := range list() {
			if !p.plan(name, touched) {
				panics++
			}
		}
	}
	if !p.planned {
		p.planned = true
		p.ledger.ForgetAdopted()
	}
	return panics
}

// tell logs one line for a round that did something, and one when the state of the
// source that was read is in the kernel.
func (p *Proxier) tell(s Summary) {
	if s.Unread != nil {
		p.failures.tell(s.Unread)
	}
	for _, err := range s.Failed {
		p.failures.tell(err)
	}
	if s.Ops > 0 || s.Failures > 0 {
		p.log.Info("round", "dirty", s.Dirty, "ops", s.Ops, "failed", s.Failures,
			"pending", s.Pending, "draining", s.Draining, "lingering", s.Lingering,
			"planned", s.Planned.Round(time.Microsecond), "took", s.Took.Round(time.Microsecond))
	}
	for _, g := range s.Grown {
		p.log.Warn("set made bigger", "set", g.Set, "members", g.Members, "from", g.From, "to", g.To)
	}
	if len(s.Repairs) > 0 {
		p.log.Warn("repaired what others had changed", "objects", s.Repairs, "first", s.Repaired)
	}
	if !s.Complete() {
		return
	}
	p.failures.over()
	if p.revision != "" {
		p.log.Info("settled", "revision", p.revision)
		p.revision = ""
	}
}
