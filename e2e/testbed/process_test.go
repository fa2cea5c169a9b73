//go:build kernel

package testbed

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script makes a product of a shell script.
func script(t *testing.T, h *Host, text string) *product {
	t.Helper()
	path := filepath.Join(t.TempDir(), "proxy")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return &product{host: h, program: path, folder: t.TempDir(), log: &Log{}}
}

func start(t *testing.T, p Proxy, args ...string) {
	t.Helper()
	if err := p.Start(args...); err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

const settlesLate = `
trap 'exit 0' TERM
echo "arguments: $*"
ip -o address show dev eth0
echo level=INFO msg=settled revision=old
sleep 0.3
echo level=INFO msg=settled revision=new
while :; do sleep 0.1; done
`

func TestProxyIsStartedSettledAndEnded(t *testing.T) {
	n := newNetwork(t)
	p := script(t, n.Host(Node2), settlesLate)
	for _, end := range []func(context.Context) error{p.Stop, p.Kill} {
		start(t, p, "--more")
		if err := p.Start(); err == nil {
			t.Error("a second one was started")
		}
		began := time.Now()
		if err := p.Settle(within(t, 10*time.Second), "new"); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 300*time.Millisecond {
			t.Errorf("settled after %v: by a line of an earlier run", took)
		}
		if err := p.Settle(within(t, 100*time.Millisecond), "old"); err == nil {
			t.Error("settled at a revision that was left")
		}
		if err := end(within(t, 10*time.Second)); err != nil {
			t.Error(err)
		}
		if err := end(t.Context()); err == nil {
			t.Error("ended twice")
		}
	}
	text := strings.Join(p.Log().Last(100, nil), "\n")
	for _, want := range []string{"--hostname-override node-2 ", " --more", "172.30.0.3/24"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the log:\n%s", want, text)
		}
	}
}

func TestProxyThatEndsIsReported(t *testing.T) {
	n := newNetwork(t)
	p := script(t, n.Host(Node1), "echo last words; exit 7")
	start(t, p)
	err := p.Settle(within(t, 10*time.Second), "new")
	if err == nil || !strings.Contains(err.Error(), "last words") || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("settle: %v", err)
	}
	if err := p.Stop(within(t, 10*time.Second)); err == nil {
		t.Error("a proxy that had failed was stopped in good order")
	}
}

func TestProxyThatIgnoresSIGTERMIsReported(t *testing.T) {
	n := newNetwork(t)
	p := script(t, n.Host(Node1), "trap '' TERM; echo level=INFO msg=settled revision=a; while :; do sleep 1; done")
	start(t, p)
	if err := p.Settle(within(t, 10*time.Second), "a"); err != nil {
		t.Fatal(err)
	}
	process := p.process
	if err := p.Stop(within(t, 200*time.Millisecond)); err == nil {
		t.Error("stopped")
	}
	if err := process.Kill(within(t, 10*time.Second)); err != nil {
		t.Error(err)
	}
}
