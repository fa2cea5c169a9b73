package health

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestHealthModel plays stories against the clock: each step waits, acts, and says
// whether the proxy is healthy then.
func TestHealthModel(t *testing.T) {
	type step struct {
		after   time.Duration
		do      func(*Health)
		healthy bool
	}
	queued := (*Health).Queued
	begin := (*Health).Begin
	end := func(complete bool) func(*Health) { return func(h *Health) { h.End(complete) } }
	look := func(*Health) {}
	for name, story := range map[string][]step{
		"nothing was asked for": {{time.Hour, look, true}},
		"a change waits": {
			{0, queued, true}, {59 * time.Second, look, true}, {time.Second, look, false},
			{0, begin, false}, {0, end(false), false}, {0, begin, false}, {0, end(true), true}, {time.Hour, look, true},
		},
		"later changes do not hide an old one": {
			{0, queued, true}, {50 * time.Second, queued, true}, {10 * time.Second, queued, false},
		},
		"rounds that leave something": {
			{0, begin, true}, {0, end(false), true}, {30 * time.Second, begin, true}, {0, end(false), true},
			{30 * time.Second, look, false}, {0, begin, false}, {0, end(true), true},
		},
		"a round that hangs": {{0, begin, true}, {time.Minute, look, false}, {0, end(true), true}},
		"a change during a round waits for the next one": {
			{0, begin, true}, {10 * time.Second, queued, true}, {10 * time.Second, end(true), true},
			{49 * time.Second, look, true}, {time.Second, look, false}, {0, begin, false}, {0, end(true), true},
		},
		"a change during a failed round is not older than what failed": {
			{0, begin, true}, {30 * time.Second, queued, true}, {0, end(false), true}, {30 * time.Second, look, false},
		},
		"a change before a round is covered by it": {
			{0, queued, true}, {10 * time.Second, begin, true}, {0, end(true), true}, {time.Hour, look, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := NewHealth(time.Minute, IPv4)
				for i, s := range story {
					time.Sleep(s.after)
					s.do(h)
					if got := h.Healthy(); got != s.healthy {
						t.Fatalf("step %d: healthy %v, want %v (waiting %v)", i+1, got, s.healthy, h.Waiting())
					}
				}
			})
		})
	}
}

func TestZeroTimeoutIsTheDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHealth(0)
		h.Queued()
		if !h.Healthy() {
			t.Error("not healthy at once")
		}
		time.Sleep(DefaultTimeout)
		if h.Healthy() {
			t.Errorf("healthy after %v", DefaultTimeout)
		}
	})
}
