package main

import (
	"math"
	"runtime"
	"runtime/debug"
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
	limit := func() int64 { return debug.SetMemoryLimit(-1) }
	memory := &thrift{headroom: make([]byte, headroom)}
	memory.started()
	memory.started()
	for deadline := time.Now().Add(30 * time.Second); limit() == math.MaxInt64; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no limit")
		}
	}
	for range 5 { // what earlier tests left goes, and the limit with it
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
	}
	var kept [][]byte
	before := limit()
	for range 40 { // 80 MiB that stay, and 80 MiB that do not
		kept = append(kept, make([]byte, 2<<20))
		waste(2 << 20)
	}
	for deadline := time.Now().Add(30 * time.Second); limit() < before+40<<20; runtime.GC() {
		if time.Now().After(deadline) {
			t.Fatalf("limit %d MiB, then %d MiB with 80 MiB more in use", before>>20, limit()>>20)
		}
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	collections := m.NumGC
	for range 2000 { // 2,000 MiB of garbage
		waste(1 << 20)
	}
	runtime.ReadMemStats(&m)
	if n := m.NumGC - collections; n < 2 || n > 300 {
		t.Errorf("%d collections of 2,000 MiB of garbage beside 80 MiB in use", n)
	}
	if m.HeapAlloc > 1000<<20 {
		t.Errorf("the heap has %d MiB", m.HeapAlloc>>20)
	}
	runtime.KeepAlive(kept)
}

//go:noinline
func waste(n int) { runtime.KeepAlive(make([]byte, n)) }
