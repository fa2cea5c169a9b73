package reconcile

import (
	"context"
	"time"
)

// Others is the door to what another proxy left on the node that it served before us.
type Others interface {
	// Serving tells whether its rules translate requests that Rules.Ensure, which takes
	// their place, will leave to us.
	Serving(ctx context.Context) (bool, error)
	// Remove takes out what Rules.Ensure does not know, and tells whether there was any.
	Remove(ctx context.Context) (removed bool, err error)
}

// others is what is known of the proxy before us.
type others struct {
	// serving: its rules translate the requests until ours are written.
	serving bool
	// gone: nothing of it is left to remove.
	gone  bool
	retry attempt
}

// askOthers is for the first round. Where it cannot be told, ours come in their usual
// order: rules before servers.
func (r *Reconciler) askOthers(ctx context.Context, report *Report) {
	if r.doors.Others == nil {
		r.others.gone = true
		return
	}
	serving, err := r.doors.Others.Serving(ctx)
	report.count("rules", "list", err)
	r.others.serving = serving && err == nil
}

// rulesLast tells that another proxy's rules serve the node, so that ours come when all
// that they lead to is there: no request is lost in between. What it does not serve
// passes our servers without our rules meanwhile, which nothing but it could help.
func (r *Reconciler) rulesLast() bool { return r.others.serving && !r.rules.done }

// removeOthers takes out the rest once our own state is in place.
func (r *Reconciler) removeOthers(ctx context.Context, report *Report) {
	now := time.Now()
	if r.others.gone || !r.rules.done || r.others.retry.failures > 0 && !r.others.retry.due(now) {
		return
	}
	removed, err := r.doors.Others.Remove(ctx)
	if removed || err != nil {
		report.count("rules", "remove", err)
	}
	if err != nil {
		r.others.retry = r.others.retry.failed(now)
		return
	}
	r.others = others{gone: true}
}
