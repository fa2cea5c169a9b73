package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// builder knows where the module is and where its programs are kept.
type builder struct {
	module string // folder of this module's go.mod
	dir    string // of the programs
}

func newBuilder(ctx context.Context) (builder, error) {
	out, err := goOutput(ctx, "", "list", "-m", "-f", "{{.Path}} {{.Dir}}")
	if err != nil {
		return builder{}, err
	}
	path, module, _ := strings.Cut(out, " ")
	if !strings.HasSuffix(path, "/e2e/peers") {
		return builder{}, fmt.Errorf("the working directory is in module %s, not in e2e/peers", path)
	}
	cache, err := cacheDir()
	if err != nil {
		return builder{}, err
	}
	sum, err := recipe(module)
	if err != nil {
		return builder{}, err
	}
	b := builder{module: module, dir: filepath.Join(cache, "peers-"+sum)}
	if err := os.MkdirAll(b.dir, 0o755); err != nil {
		return builder{}, fmt.Errorf("cache folder: %w; set XDG_CACHE_HOME to a folder that can be written", err)
	}
	return b, nil
}

// recipe is a name for everything that decides what the programs are.
func recipe(module string) (string, error) {
	var all []byte
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		all = fmt.Appendf(all, "%s %d\n%s", name, len(text), text)
	}
	for _, p := range peers {
		all = fmt.Appendln(all, p.buildArgs("v0.0.0", ""))
	}
	all = fmt.Appendln(all, environment, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return fmt.Sprintf("%x", sha256.Sum256(all))[:12], nil
}

// environment makes programs that need nothing beside them, from this module alone.
var environment = []string{"CGO_ENABLED=0", "GOWORK=off"}

// ensure builds a peer unless it is there, and returns its path. Two runs at
// once build one after the other, and the second finds what the first made.
func (b builder) ensure(ctx context.Context, p peer) (string, error) {
	path := filepath.Join(b.dir, p.name)
	if exists(path) {
		return path, nil
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if exists(path) {
		return path, nil
	}
	tmp := path + ".tmp" // an earlier one is of a run that was killed: we hold the lock
	version, err := goOutput(ctx, b.module, "list", "-m", "-f", "{{.Version}}", p.module)
	if err != nil {
		return "", err
	}
	if err := b.build(ctx, p, version, tmp); err != nil {
		return "", fmt.Errorf("build %s %s: %w", p.name, version, err)
	}
	if err := check(ctx, tmp, p, version); err != nil {
		return "", errors.Join(err, os.Remove(tmp))
	}
	return path, os.Rename(tmp, path)
}

func (b builder) build(ctx context.Context, p peer, version, out string) error {
	done := progress(fmt.Sprintf("building %s %s", p.name, version))
	defer done()
	_, err := goOutput(ctx, b.module, p.buildArgs(version, out)...)
	return err
}

// check asks the program for its version: the linker says nothing when it does
// not find a variable to set.
func check(ctx context.Context, path string, p peer, version string) error {
	cmd := exec.CommandContext(ctx, path, p.ask...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", p.name, strings.Join(p.ask, " "), err, out)
	}
	if !says(string(out), version) {
		return fmt.Errorf("%s was built from %s %s, but says: %s", p.name, p.module, version, out)
	}
	return nil
}

// goOutput runs the go command in a folder and returns what it printed, without
// blanks around it. The error has what it complained of.
func goOutput(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// progress says now and then how long something has taken, until done.
func progress(what string) (done func()) {
	start := time.Now()
	say := func() { fmt.Fprintf(os.Stderr, "peers: %s ... %.0f s\n", what, time.Since(start).Seconds()) }
	say()
	tick := time.NewTicker(15 * time.Second)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-tick.C:
				say()
			case <-stop:
				return
			}
		}
	}()
	return func() {
		tick.Stop()
		close(stop)
		<-stopped
		say()
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
