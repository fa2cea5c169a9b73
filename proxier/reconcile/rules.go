package reconcile

import (
	"context"
	"time"
)

// rules is what is known of the static rules.
type rules struct {
	// wanted: they must be looked at; done: they were once complete.
	wanted, done bool
	// others: other rules are wanted than before, so that writing them is no repair.
	others bool
	retry  attempt
	// told: somebody changed rules; the next look is at lookAt.
	lookAt time.Time
	looked time.Time // last look that somebody's change led to
	wait   time.Duration
}

// The least time from one look at the rules to the next, when others change rules
// again and again: it doubles from the first to the last value.
const (
	settleRules  = 50 * time.Millisecond
	firstLook    = time.Second
	lastLook     = 10 * time.Second
	quietToReset = 20 * time.Second
)

// Rules that cannot be written are tried again each rulesRetry at the latest for
// rulesPatience, since another program that holds the lock of the tables is soon done;
// then as all else.
const (
	rulesRetry    = 800 * time.Millisecond
	rulesPatience = time.Minute
)

// failed notes a look that failed.
func (l *rules) failed(now time.Time) {
	l.retry = l.retry.failed(now)
	if soon := now.Add(rulesRetry); now.Sub(l.retry.since) < rulesPatience && soon.Before(l.retry.at) {
		l.retry.at = soon
	}
}

// RulesChanged has the rules looked at soon: somebody changed rules, which may be
// ours. The first look is at once, those after it wait, so that a host whose rules
// change all the time costs little.
func (r *Reconciler) RulesChanged() {
	now := time.Now()
	if !r.rules.lookAt.IsZero() {
		return
	}
	if now.Sub(r.rules.looked) > quietToReset {
		r.rules.wait = 0
	}
	r.rules.lookAt = now.Add(settleRules)
	if next := r.rules.looked.Add(r.rules.wait); next.After(r.rules.lookAt) {
		r.rules.lookAt = next
	}
}

// EnsureRules has the rules made anew in the next round: other ones are wanted.
func (r *Reconciler) EnsureRules() { r.rules.wanted, r.rules.others = true, true }

// due turns what was told into a look.
func (l *rules) due(now time.Time) {
	if l.lookAt.IsZero() || now.Before(l.lookAt) {
		return
	}
	l.wanted, l.looked, l.lookAt = true, now, time.Time{}
	l.wait = min(max(2*l.wait, firstLook), lastLook)
}

// ensureRules reports whether servers may be created: the rules are complete, or
// were once (then a failure to look again does not stop the traffic's changes).
func (r *Reconciler) ensureRules(ctx context.Context, report *Report) bool {
	now := time.Now()
	r.rules.due(now)
	if !r.rules.wanted || r.rules.retry.failures > 0 && !r.rules.retry.due(now) {
		return r.rules.done
	}
	changed, err := r.doors.Rules.Ensure(ctx)
	if err != nil || changed {
		report.count("rules", "ensure", err)
	}
	if err != nil {
		r.rules.failed(time.Now())
		if r.known {
			r.readSets(ctx, report, false, nil) // rules cannot name a set that is gone
		}
		return r.rules.done
	}
	if changed && r.rules.done && !r.rules.others {
		report.repaired("rules", "static rules")
	}
	r.rules.wanted, r.rules.others, r.rules.done, r.rules.retry = false, false, true, attempt{}
	return true
}
