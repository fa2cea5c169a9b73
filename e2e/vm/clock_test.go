package main

import (
	"strings"
	"testing"
	"time"
)

// Two measurements of the clock agree, however busy the host is.
func TestTicksPerMillisecond(t *testing.T) {
	a, b := ticksPerMillisecond(20*time.Millisecond), ticksPerMillisecond(100*time.Millisecond)
	switch {
	case !hasTicks && a == 0 && b == 0:
	case a < 100_000 || a > 20_000_000:
		t.Errorf("%d ticks a millisecond", a)
	case max(a, b)-min(a, b) > a/1000:
		t.Errorf("%d and %d ticks a millisecond", a, b)
	}
}

func TestOnlyTheRunningClockIsTold(t *testing.T) {
	if told := strings.Contains(kernelArgs(false), "tsc_early_khz="); told != hasTicks {
		t.Errorf("told: %v", told)
	}
	if strings.Contains(kernelArgs(true), "tsc_early_khz=") {
		t.Error("the clock that follows instructions is not the host's")
	}
}
