package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"time"
)

func TestMissing(t *testing.T) {
	tools := []tool{{"modprobe", "kmod"}, {"ip", "iproute2"}, {"depmod", "kmod"}, {"ipset", "ipset"}}
	got := missing(tools, func(command string) bool { return command == "ip" })
	if want := []string{"ipset", "kmod"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := missing(tools, func(string) bool { return true }); len(got) != 0 {
		t.Errorf("nothing is missing, got %q", got)
	}
	if got := commands(tools, []string{"kmod"}); got != "modprobe depmod" {
		t.Errorf("commands of kmod: %q", got)
	}
}

func TestKernelPackage(t *testing.T) {
	const text = "linux-image-amd64\n  Depends: linux-image-6.1.0-57-amd64\n  Conflicts: x\n"
	m := kernelPackage.FindStringSubmatch(text)
	if m == nil || m[1] != "linux-image-6.1.0-57-amd64" {
		t.Errorf("got %q", m)
	}
}

func TestLastLines(t *testing.T) {
	if got := lastLines("a\n\nb\n  \nc\n", 2); got != "b\nc" {
		t.Errorf("got %q", got)
	}
	if got := lastLines("a", 5); got != "a" {
		t.Errorf("got %q", got)
	}
}

// TestAwait covers each way a run ends.
func TestAwait(t *testing.T) {
	started := make(chan struct{})
	close(started)
	never := make(chan ending)

	ends := make(chan ending, 1)
	ends <- ending{outcome: outcome{code: 7}}
	if got, err := await(ends, started, 0); err != nil || got.code != 7 {
		t.Errorf("own end: got %+v, %v", got, err)
	}
	ends <- ending{err: errNoOutcome}
	if _, err := await(ends, started, 0); !errors.Is(err, errNoOutcome) {
		t.Errorf("dead machine: error %v", err)
	}
	if got, err := await(never, started, 10*time.Millisecond); err != nil || got.code != exitTimeout {
		t.Errorf("timeout: got %+v, %v", got, err)
	}
	// The signal is sent until it is answered: before await listens it would
	// end the test's process, so something else listens as well.
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	guard := make(chan os.Signal, 1)
	signal.Notify(guard, syscall.SIGTERM)
	go func() {
		for ctx.Err() == nil {
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			time.Sleep(5 * time.Millisecond)
		}
	}()
	if got, err := await(never, started, 10*time.Second); err != nil || got.code != exitInterrupted {
		t.Errorf("SIGTERM: got %+v, %v", got, err)
	}
}
