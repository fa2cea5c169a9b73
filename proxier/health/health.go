// Package health tells others how the proxy is: /healthz and /livez, the
// health-check ports of Services for load balancers, and metrics. It imports
// nothing of the proxy; the loop tells it what happens through Monitor and Checks.
//
// Paths, bodies, headers and the kubeproxy_ metrics are those of kube-proxy 1.37,
// so that load balancers, probes and dashboards need no change.
package health

import (
	"sync"
	"time"
)

// Health is the state of the node's proxy. Healthy means that what was asked for
// is in the kernel: it ends when the oldest change has waited for Timeout, and
// comes back with the next round that leaves nothing undone. A round that hangs
// makes it end too.
//
// One loop serves all families, so that they have one state. Methods may be called
// from any goroutine.
type Health struct {
	timeout  time.Duration
	families []Family

	mu       sync.Mutex
	eligible bool
	// updated is the end of the last round that left nothing undone, at first the
	// time of the start.
	updated time.Time
	// oldest is the time of the first change that is not in the kernel; next that of
	// the first change that came after the last round began. Zero: there is none.
	oldest, next time.Time
}

// DefaultTimeout is twice the default sync period.
const DefaultTimeout = time.Minute

// NewHealth returns a healthy state of a node that is not yet known, and therefore
// not eligible. Timeout is how long a change may wait, in kube-proxy twice the sync
// period; zero means DefaultTimeout.
func NewHealth(timeout time.Duration, families ...Family) *Health {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &Health{timeout: timeout, families: families, updated: time.Now()}
}

// Queued notes that something changed that a round has to bring to the kernel.
func (h *Health) Queued() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note(&h.oldest)
	h.note(&h.next)
}

func (h *Health) note(t *time.Time) {
	if t.IsZero() {
		*t = time.Now()
	}
}

// Begin notes that a round starts. It counts as a change that waits, so that a
// round that never ends is noticed.
func (h *Health) Begin() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.note(&h.oldest)
	h.next = time.Time{}
}

// End notes that a round ended; complete: it left nothing undone. What was queued
// while it ran still waits.
func (h *Health) End(complete bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if complete {
		h.updated, h.oldest = time.Now(), h.next
	}
}

// SetEligible says whether load balancers should send new connections to this
// node: its Node is known, not being deleted, and not tainted
// ToBeDeletedByClusterAutoscaler (KEP-3836). Only /healthz cares.
func (h *Health) SetEligible(eligible bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.eligible = eligible
}

// Healthy tells whether no change waits for too long.
func (h *Health) Healthy() bool { return h.Waiting() < h.timeout }

// Waiting returns how long the oldest change has waited; zero when none does.
func (h *Health) Waiting() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting(time.Now())
}

func (h *Health) waiting(now time.Time) time.Duration {
	if h.oldest.IsZero() {
		return 0
	}
	return now.Sub(h.oldest)
}

// state is one look at the whole.
type state struct {
	now, updated      time.Time
	healthy, eligible bool
}

func (h *Health) state() state {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	return state{now: now, updated: h.updated, healthy: h.waiting(now) < h.timeout, eligible: h.eligible}
}
