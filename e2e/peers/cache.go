package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cacheDir is the folder that e2e/vm keeps its kernel in, too.
func cacheDir() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" && os.Geteuid() == 0 {
		base = "/var/cache"
	}
	if base == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no folder for the programs: %w; set XDG_CACHE_HOME", err)
		}
		base = home
	}
	return filepath.Abs(filepath.Join(base, "kube-ipvs-proxy"))
}

// lock waits until no other run builds for the same folder. The lock ends with
// the process, however that ends.
func (b builder) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(b.dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cache lock: %w", err)
	}
	told := false
	for {
		err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return nil, errors.Join(fmt.Errorf("cache lock: %w", err), f.Close())
		}
		if !told {
			told = true
			fmt.Fprintln(os.Stderr, "peers: another run is building, waiting for it")
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, errors.Join(context.Cause(ctx), f.Close())
		}
	}
}

// dieWithGoRun ends this process with its parent when "go run" started it: that
// parent does not pass SIGTERM on.
func dieWithGoRun() {
	exe, err := os.Executable()
	if err == nil && strings.Contains(exe, "/go-build") {
		_ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGTERM), 0, 0, 0) // best effort
	}
}
