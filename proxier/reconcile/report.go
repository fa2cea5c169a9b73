package reconcile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// Report is what a round did and what it left.
type Report struct {
	// Ops counts the operations that the kernel was asked for.
	Ops int
	// Failed holds the first errors, at most maxErrors; Failures counts all.
	Failed   []error
	Failures int
	// Pending counts keys that are not yet right in the kernel.
	Pending int
	// Draining counts real servers that wait for their connections to end.
	Draining int
	// RetryIn is the time until the next round should run; zero when nothing waits.
	RetryIn time.Duration
}

// maxErrors bounds a report: a thousand failures of one kind say no more than ten.
const maxErrors = 10

func (r *Report) fail(err error) {
	if err == nil {
		return
	}
	r.Failures++
	if len(r.Failed) < maxErrors {
		r.Failed = append(r.Failed, err)
	}
}

// Err joins the failures, or is nil.
func (r Report) Err() error {
	if r.Failures == 0 {
		return nil
	}
	errs := r.Failed
	if more := r.Failures - len(errs); more > 0 {
		errs = append(errs[:len(errs):len(errs)], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// The time to the next try doubles from the first to the last value.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 60 * time.Second
)

// retryLater sets the time of the next try, unless it is set.
func (r *Reconciler) retryLater() {
	if !r.retryAt.IsZero() {
		return
	}
	wait := min(firstRetry<<min(r.failures, 10), lastRetry)
	r.failures++
	jitter := time.Duration(rand.Int64N(int64(wait)/4 + 1))
	r.retryAt = time.Now().Add(wait + jitter)
}

// finish counts what is left and when to come again.
func (r *Reconciler) finish(report *Report) Report {
	if report.Failures > 0 {
		r.retryLater()
	} else if r.failed.Len() == 0 {
		r.failures = 0
	}
	report.Pending = r.failed.Len() + r.pending.Len()
	report.Draining = r.drains.len()
	var next time.Time
	for _, at := range []time.Time{r.retryAt, r.drains.next()} {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if !next.IsZero() {
		report.RetryIn = max(time.Until(next), time.Millisecond)
	}
	return *report
}
