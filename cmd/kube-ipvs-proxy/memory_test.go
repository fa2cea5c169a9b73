package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"testing"
	"time"
)

// TestThriftFollowsTheHeap: garbage is collected in time, whatever the heap has grown
// to since the start, and not again and again.
func TestThriftFollowsTheHeap(t *testing.T) {
	percent := debug.SetGCPercent(garbage)
	t.Cleanup(func() {
		debug.SetGCPercent(percent)
		debug.SetMemoryLimit(math.MaxInt64)
	})
	h := &heap{T: t}
	memory := &thrift{headroom: make([]byte, headroom), followed: func() { h.followed.Add(1) }}
	memory.started()
	memory.started()
	h.await(func() bool { return h.followed.Load() > 0 })
	for range 3 { // what earlier tests left goes, and the limit with it
		h.collect()
	}
	var kept [][]byte
	before := debug.SetMemoryLimit(-1)
	for range 40 { // 80 MiB that stay, and 80 MiB that do not
		kept = append(kept, make([]byte, 2<<20))
		h.waste(2 << 20)
	}
	for range 3 {
		h.collect()
	}
	after := debug.SetMemoryLimit(-1)
	if grown := (after - before) >> 20; grown < 80 || grown > 200 {
		t.Errorf("limit %d MiB, then %d MiB with 80 MiB more in use", before>>20, after>>20)
	}
	collections := h.collections()
	for range 2000 { // 2,000 MiB of garbage
		h.waste(1 << 20)
	}
	// How much garbage gathers until a collection ends is up to Go, and to the host's load.
	if n := h.collections() - collections; n == 0 || n > 300 {
		t.Errorf("%d collections of 2,000 MiB of garbage beside 80 MiB in use", n)
	}
	for range 3 {
		h.collect()
	}
	if grown := (debug.SetMemoryLimit(-1) - after) >> 20; grown > 40 {
		t.Errorf("the limit is %d MiB higher, with nothing more in use", grown)
	}
	runtime.KeepAlive(kept)
}

// heap makes garbage no faster than its limit follows, however busy the machine is.
type heap struct {
	*testing.T
	followed atomic.Int64
}

func (h *heap) collections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// waste allocates what nobody uses.
func (h *heap) waste(n int) {
	collections, followed := h.collections(), h.followed.Load()
	garbageOf(n)
	if h.collections() != collections {
		h.await(func() bool { return h.followed.Load() != followed })
	}
}

// collect collects until the limit has followed.
func (h *heap) collect() {
	followed := h.followed.Load()
	runtime.GC()
	h.await(func() bool { return h.followed.Load() != followed })
}

// await waits for what another collection may have to bring about.
func (h *heap) await(done func() bool) {
	h.Helper()
	for range 600 {
		for range 100 {
			if done() {
				return
			}
			time.Sleep(time.Millisecond)
		}
		runtime.GC()
	}
	h.Fatal("the limit does not follow")
}

//go:noinline
func garbageOf(n int) { runtime.KeepAlive(make([]byte, n)) }
