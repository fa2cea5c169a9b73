package config

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// write replaces a file's text in place.
func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// followed starts Follow on a file and returns a channel with a value for each change.
func followed(t *testing.T, name string, look time.Duration) <-chan struct{} {
	t.Helper()
	r, err := resolve(t, "--config", name)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done, changes := make(chan struct{}), make(chan struct{}, 10)
	go func() {
		r.follow(ctx, 20*time.Millisecond, look, func() { changes <- struct{}{} })
		close(done)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return changes
}

func expectChange(t *testing.T, changes <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-changes:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s: no change seen", what)
	}
}

func expectNone(t *testing.T, changes <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-changes:
		t.Fatalf("%s: a change is seen", what)
	case <-time.After(150 * time.Millisecond):
	}
}

func TestFollowFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "config.conf")
	write(t, name, kubeProxyHead)
	changes := followed(t, name, time.Hour)
	expectNone(t, changes, "nothing done")
	write(t, name, kubeProxyHead+"mode: ipvs")
	expectChange(t, changes, "written in place")
	write(t, name, kubeProxyHead+"mode: ipvs")
	expectNone(t, changes, "the same text again")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	expectNone(t, changes, "removed")
	write(t, name+".new", kubeProxyHead)
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
	expectChange(t, changes, "another file in its place")
}

// TestFollowConfigMap: kubelet changes the link that all files of a volume go through.
func TestFollowConfigMap(t *testing.T) {
	dir := t.TempDir()
	version := func(n, text string) {
		if err := os.Mkdir(filepath.Join(dir, n), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, n, "config.conf"), text)
		if err := os.Symlink(n, filepath.Join(dir, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	version("..1", kubeProxyHead)
	name := filepath.Join(dir, "config.conf")
	if err := os.Symlink("..data/config.conf", name); err != nil {
		t.Fatal(err)
	}
	changes := followed(t, name, time.Hour)
	expectNone(t, changes, "nothing done")
	version("..2", kubeProxyHead+"mode: ipvs")
	expectChange(t, changes, "another version")
}

// TestFollowLooks: what no event tells is found by looking.
func TestFollowLooks(t *testing.T) {
	elsewhere, name := filepath.Join(t.TempDir(), "real"), filepath.Join(t.TempDir(), "config.conf")
	write(t, elsewhere, kubeProxyHead)
	if err := os.Symlink(elsewhere, name); err != nil {
		t.Fatal(err)
	}
	changes := followed(t, name, 50*time.Millisecond)
	write(t, elsewhere, kubeProxyHead+"mode: ipvs")
	expectChange(t, changes, "written behind a link")
}

// TestFollowSeesWhatChangedBefore: between reading and following.
func TestFollowSeesWhatChangedBefore(t *testing.T) {
	name := filepath.Join(t.TempDir(), "config.conf")
	write(t, name, kubeProxyHead)
	r, err := resolve(t, "--config", name)
	if err != nil {
		t.Fatal(err)
	}
	write(t, name, kubeProxyHead+"mode: ipvs")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed := false
	r.follow(ctx, time.Millisecond, time.Hour, func() { changed = true; cancel() })
	if !changed {
		t.Error("no change seen")
	}
}

func TestFollowWithoutFileReturns(t *testing.T) {
	Defaults().Follow(t.Context(), func() { t.Error("a change of no file") })
}
