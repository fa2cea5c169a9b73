package proxier

import (
	"context"
	"time"
)

// Adoption is what a running loop takes over of a changed configuration.
type Adoption struct {
	MinSyncPeriod, DrainTimeout time.Duration
	// Rules is called by the loop, so that it may change what the rules will be; they
	// are made anew after it. Nil: the rules stay.
	Rules func()
}

// Adopt has the loop take over a changed configuration before its next round; it
// returns when that is done, or ctx ends. It is for another goroutine than Run's.
func (p *Proxier) Adopt(ctx context.Context, a Adoption) {
	select {
	case p.adoptions <- a:
	case <-ctx.Done():
	}
}

// adopt is called by the loop. Drains that are under way count with the new time.
func (p *Proxier) adopt(a Adoption) {
	p.config.MinSyncPeriod = a.MinSyncPeriod
	p.kernel.SetDrainTimeout(a.DrainTimeout)
	if a.Rules != nil {
		a.Rules()
		p.kernel.EnsureRules()
	}
}
