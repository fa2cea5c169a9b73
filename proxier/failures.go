package proxier

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"kube-ipvs-proxy/proxier/plan"
)

// failures says each failure when it comes and then seldom, as long as it lasts.
type failures struct {
	log  *slog.Logger
	said map[string]time.Time
}

const (
	// sayAgain is the time between two lines about the same failure.
	sayAgain = 5 * time.Minute
	// mostSaid bounds what is remembered.
	mostSaid = 1000
)

func newFailures(log *slog.Logger) failures {
	return failures{log: log, said: map[string]time.Time{}}
}

// tell says a failure, unless it is that the process is being ended.
func (f *failures) tell(err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	text, now := err.Error(), time.Now()
	if at, ok := f.said[text]; ok && now.Sub(at) < sayAgain {
		return
	}
	if len(f.said) >= mostSaid {
		f.over()
	}
	f.said[text] = now
	f.log.Error("operation failed", "err", err)
}

// over: everything is right, so that the next failure is a new one.
func (f *failures) over() { clear(f.said) }

// panicked are the Services whose planning panicked, with the time at which they are
// planned again.
type panicked map[plan.ServiceName]time.Time

// planAgain is the time after which a Service whose planning panicked is planned
// again, when it has not changed before.
const planAgain = 30 * time.Second

func (p panicked) due(now time.Time) []plan.ServiceName {
	var names []plan.ServiceName
	for name, at := range p {
		if !now.Before(at) {
			names = append(names, name)
		}
	}
	return names
}

func (p panicked) next() time.Time {
	var next time.Time
	for _, at := range p {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	return next
}
