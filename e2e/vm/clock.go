package main

import (
	"fmt"
	"math"
	"time"
)

// clockArgs tells the kernel how fast the clock of the emulated CPUs goes, which is this
// host's time-stamp counter. The kernel would measure it against a timer at its start; on
// a busy host it was off by a factor of six once, and all limits of time were a sixth.
func clockArgs() string {
	if !hasTicks {
		return ""
	}
	return fmt.Sprintf(" tsc_early_khz=%d", ticksPerMillisecond(100*time.Millisecond))
}

// ticksPerMillisecond counts for a while.
func ticksPerMillisecond(long time.Duration) uint64 {
	at, n := moment()
	time.Sleep(long)
	later, m := moment()
	return uint64(math.Round(float64(m-n) / (float64(later.Sub(at)) / float64(time.Millisecond))))
}

// moment reads both clocks as nearly at once as can be had.
func moment() (at time.Time, n uint64) {
	gap := time.Duration(math.MaxInt64)
	for range 100 {
		before := time.Now()
		ticks := ticks()
		if took := time.Since(before); took < gap {
			gap, at, n = took, before.Add(took/2), ticks
		}
	}
	return at, n
}
