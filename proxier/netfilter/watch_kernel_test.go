//go:build kernel

package netfilter

import (
	"context"
	"testing"
	"time"
)

func TestWatchTellsOfDamage(t *testing.T) {
	newNamespace(t)
	h := newHost(t, BackendNFT)
	r := h.ensured()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	changes, err := r.Watch(ctx)
	if err != nil {
		t.Fatal(err)
	}
	h.restore(false, "*raw\n:strange - [0:0]\n-A strange -j ACCEPT\nCOMMIT\n")
	select {
	case <-changes:
		t.Error("told of a table that holds nothing of ours")
	case <-time.After(5 * settle):
	}
	for _, ipv6 := range []bool{false, true} {
		h.run(ipv6, "-t", "nat", "-F")
		select {
		case <-changes:
		case <-time.After(10 * time.Second):
			t.Fatal("not told that nat was flushed")
		}
		h.ensure(r, true)
		<-changes // of our own writing
		h.wantRight(r)
	}
	cancel()
	deadline := time.After(10 * time.Second)
	for open := true; open; {
		select {
		case _, open = <-changes: // perhaps a late one
		case <-deadline:
			t.Fatal("the channel was not closed")
		}
	}
}

// Of legacy tables the kernel tells nothing: they are looked at.
func TestWatchLooksAtLegacyTables(t *testing.T) {
	newNamespace(t)
	h := newHost(t, BackendLegacy)
	r := h.ensured()
	const period = time.Second
	changes, err := r.watch(t.Context(), period)
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-changes:
		t.Error("told without a change")
	case <-time.After(period + settle):
	}
	for _, damage := range []struct {
		ipv6 bool
		args []string
	}{
		{false, []string{"-t", "nat", "-F"}}, {true, []string{"-t", "mangle", "-I", "PREROUTING", "-j", "ACCEPT"}},
		{true, []string{"-t", "filter", "-D", "INPUT", "1"}},
	} {
		h.run(damage.ipv6, damage.args...)
		select {
		case <-changes:
		case <-time.After(30 * period):
			t.Fatalf("not told of %v", damage.args)
		}
	}
}
