package load

import (
	"sync"
	"time"
)

// pulse notices when the machine stands still: it wakes up late.
type pulse struct {
	mu     sync.Mutex
	stalls []stall
	last   time.Time
}

// stall is a time in which nothing ran.
type stall struct{ from, to time.Time }

// beat is the time between two looks, and slack what is no stall.
const (
	beat  = 100 * time.Millisecond
	slack = 2 * time.Second
)

func (p *pulse) run(stop <-chan struct{}) {
	p.note(time.Now())
	for wait(stop, beat) {
		p.note(time.Now())
	}
}

func (p *pulse) note(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.last.IsZero() && now.Sub(p.last) > slack {
		p.stalls = append(p.stalls, stall{p.last, now})
	}
	p.last = now
}

// stood tells whether the machine stood still for a quarter of the time that ends now.
func (p *pulse) stood(took time.Duration) bool {
	now := time.Now()
	p.note(now) // this may be the first to wake up
	from := now.Add(-took)
	p.mu.Lock()
	defer p.mu.Unlock()
	still := time.Duration(0)
	for _, s := range p.stalls {
		begin := s.from
		if begin.Before(from) {
			begin = from
		}
		if s.to.After(begin) {
			still += s.to.Sub(begin)
		}
	}
	return still > took/4
}
