package reconcile

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/fake"
)

// seeds is how many random lives are tried.
var seeds = flag.Uint64("seeds", 30, "how many random lives TestRandomLife tries")

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

// Random changes, connections, damage, faults and restarts: in the end the kernel
// equals the plan, what is foreign stays, and nothing desired ever went.
func TestRandomLife(t *testing.T) {
	for seed := range *seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble(t, func(w *world) {
				random := newRandom(t, seed)
				foreign := w.foreign()
				list := w.sample()
				for range 40 {
					w.live(random, list[random.IntN(len(list))])
				}
				w.heal()
				w.rest()
				w.Doubt()
				w.settle()
				w.equal(foreign...)
			})
		})
	}
}

// live does one random thing.
func (w *world) live(random *rand.Rand, s *service) {
	switch random.IntN(11) {
	case 0:
		w.remove(s)
	case 1, 2:
		w.put(s.with(random.Perm(6)[:random.IntN(6)]...))
	case 3:
		s.ExternalLocal, s.InternalLocal = random.IntN(2) == 0, random.IntN(2) == 0
		w.put(s)
	case 4:
		w.heal()
		w.rest()
		w.lies = true
		w.settle()
		w.hurt(random)
		w.Doubt()
		w.round() // the sets are the journal: who destroys it and kills us is not foiled
	case 5:
		w.start()
	case 6:
		w.heal()
		w.connect(random)
	case 7:
		w.ipvs.Fail(func(fake.IPVSRequest) error {
			if random.IntN(10) == 0 {
				return syscall.ENOBUFS
			}
			return nil
		})
	case 8:
		w.heal()
	default:
		time.Sleep(w.round().RetryIn)
	}
}

// ours are the virtual servers that the kernel has and that are not foreign.
func (w *world) ours() []ipvsutil.Key {
	keys := sortedKeys(keysOf(w.seen.servers))
	return slices.DeleteFunc(keys, func(key ipvsutil.Key) bool {
		return !strings.Contains(w.ipvs.Dump(), "vs "+key.String()+" ")
	})
}

// connect gives some real servers connections.
func (w *world) connect(random *rand.Rand) {
	for _, key := range w.ours() {
		for addr := range w.seen.reals[key] {
			if random.IntN(4) == 0 && w.weight(key, addr) != "" {
				w.busy(key, addr, 1)
			}
		}
	}
}

// rest ends all connections.
func (w *world) rest() {
	for _, key := range w.ours() {
		states, _ := w.ipvs.RealServers(w.t.Context(), key)
		for _, state := range states {
			state.Connections = ipvsutil.Connections{}
			w.ipvs.PutReal(key, state)
		}
	}
}
