package main

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestChoose(t *testing.T) {
	got, err := choose(nil)
	if err != nil || len(got) != len(peers) {
		t.Errorf("no names: %v, %v", got, err)
	}
	got, err = choose([]string{"kubectl", "etcd"})
	if err != nil || len(got) != 2 || got[0].name != "kubectl" || got[1].name != "etcd" {
		t.Errorf("two names: %v, %v", got, err)
	}
	if _, err = choose([]string{"kubelet"}); err == nil || !strings.Contains(err.Error(), "kubelet") {
		t.Errorf("another name: %v", err)
	}
}

func TestVersionIsLinkedIn(t *testing.T) {
	flags := strings.Fields(peers[2].ldflags("v1.37.2"))
	for _, want := range []string{"-s", "k8s.io/component-base/version.gitVersion=v1.37.2",
		"k8s.io/component-base/version.gitMajor=1", "k8s.io/component-base/version.gitMinor=37"} {
		if !slices.Contains(flags, want) {
			t.Errorf("no %q in %q", want, flags)
		}
	}
}

func TestVersionThatAProgramSays(t *testing.T) {
	for _, c := range []struct {
		text string
		want bool
	}{
		{"Kubernetes v1.37.2\n", true},
		{"etcd Version: 1.37.2\nGit SHA: x\n", true},
		{"Kubernetes v0.0.0-master+$Format:%H$\n", false},
		{"Kubernetes v1.37.21\n", false},
		{"", false},
	} {
		if got := says(c.text, "v1.37.2"); got != c.want {
			t.Errorf("%q: %v, want %v", c.text, got, c.want)
		}
	}
}

// stub makes a builder whose go command is a script.
func stub(t *testing.T, script string) builder {
	t.Helper()
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "go"), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	return builder{module: t.TempDir(), dir: t.TempDir()}
}

// compiles writes a program that says its version, and a line to the file builds.
const compiles = `
if [ "$1" = list ]; then echo v3.7.3; exit; fi
while [ "$1" != -o ]; do shift; done
echo >> "$(dirname "$2")/builds"
printf '#!/bin/sh\necho etcd Version: VERSION\n' > "$2"
chmod +x "$2"
`

func builds(t *testing.T, b builder) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(b.dir, "builds"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}

func TestABuildIsKept(t *testing.T) {
	b := stub(t, strings.ReplaceAll(compiles, "VERSION", "3.7.3"))
	paths := make(chan string, 3)
	for range 3 {
		go func() {
			path, err := b.ensure(t.Context(), peers[0])
			if err != nil {
				t.Error(err)
			}
			paths <- path
		}()
	}
	for range 3 {
		if got, want := <-paths, filepath.Join(b.dir, "etcd"); got != want {
			t.Errorf("path %q, want %q", got, want)
		}
	}
	if n := builds(t, b); n != 1 {
		t.Errorf("%d builds, want 1", n)
	}
}

func TestAnotherVersionIsRefused(t *testing.T) {
	b := stub(t, strings.ReplaceAll(compiles, "VERSION", "3.7.4"))
	for range 2 { // what was refused is not taken the next time
		if _, err := b.ensure(t.Context(), peers[0]); err == nil || !strings.Contains(err.Error(), "3.7.4") {
			t.Fatalf("error %v", err)
		}
	}
	if n := builds(t, b); n != 2 {
		t.Errorf("%d builds, want 2", n)
	}
}

func TestWhatTheCompilerSaysIsTold(t *testing.T) {
	b := stub(t, `[ "$1" = list ] && echo v3.7.3 && exit; echo no such package >&2; exit 1`)
	if _, err := b.ensure(t.Context(), peers[0]); err == nil || !strings.Contains(err.Error(), "no such package") {
		t.Errorf("error %v", err)
	}
}

func TestWaitingForAnotherRunCanBeEnded(t *testing.T) {
	b := builder{dir: t.TempDir()}
	unlock, err := b.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := b.lock(ctx); err == nil {
		t.Error("two have the lock")
	}
	unlock()
	if unlock, err = b.lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	unlock()
}
