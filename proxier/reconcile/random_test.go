package reconcile

import (
	"math/rand/v2"
	"testing"
	"time"
)

// newRandom is the same for a seed, which a failure shows.
func newRandom(t *testing.T, seed uint64) *rand.Rand {
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("seed %d", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 1))
}

func sleep(d time.Duration) { time.Sleep(d) }
