package netfilter

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// script makes an executable that stands in for a program.
func script(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestErrorsAreTold(t *testing.T) {
	for said, want := range map[string]error{
		"Another app is currently holding the xtables lock; still 4s 0us time ahead to have a chance to grab the lock...": ErrBusy,
		"iptables-restore v1.8.9 (legacy): Kernel module xt_set is not loaded in.":                                        ErrNoSetMatch,
		"Warning: Extension set revision 0 not supported, missing kernel module?":                                         ErrNoSetMatch,
		"iptables-restore v1.8.9 (nf_tables): Set KUBE-CLUSTER-IP doesn't exist.":                                         ErrNoSet,
		"iptables-restore: line 4 failed":                                                                                 nil,
	} {
		program := script(t, "iptables-restore", "cat >/dev/null\ncat >&2 <<'E'\n"+said+"\nE\nexit 4")
		err := programs{restore: program}.write(context.Background(), "*nat\nCOMMIT\n")
		var failed *CommandError
		if !errors.As(err, &failed) || !strings.Contains(err.Error(), said) || !strings.Contains(err.Error(), "exit status 4") {
			t.Fatalf("%v, want the program's words and its exit status", err)
		}
		for _, kind := range []error{ErrBusy, ErrNoSetMatch, ErrNoSet} {
			if got := errors.Is(err, kind); got != errors.Is(want, kind) {
				t.Errorf("%s: is %q: %v", said, kind, got)
			}
		}
	}
}

func TestHangingProgramIsEnded(t *testing.T) {
	program := script(t, "iptables-save", "sleep 60")
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	_, err := programs{save: program}.list(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestMissingProgramIsNamed(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	_, err := New(context.Background(), DefaultFlags())
	if !errors.Is(err, ErrNoIPTables) || !strings.Contains(err.Error(), "iptables") {
		t.Errorf("%v, want ErrNoIPTables with the program's name", err)
	}
	if _, err := Probe(context.Background(), BackendLegacy); !errors.Is(err, ErrNoIPTables) || !strings.Contains(err.Error(), "iptables-legacy") {
		t.Errorf("%v, want ErrNoIPTables with the program's name", err)
	}
}

// TestUnstableRulesAreReported: a program that always prints nothing looks like one
// whose writes are undone at once.
func TestUnstableRulesAreReported(t *testing.T) {
	f := family{
		programs: programs{save: script(t, "iptables-save", ":"), restore: script(t, "iptables-restore", "cat >/dev/null")},
		want:     Render(podNetwork(), false),
	}
	changed, err := f.ensure(context.Background())
	if !changed || !errors.Is(err, ErrUnstable) || !strings.Contains(err.Error(), "chain KUBE-SERVICES is missing") {
		t.Errorf("changed %v, %v; want ErrUnstable that says what is wrong", changed, err)
	}
}
