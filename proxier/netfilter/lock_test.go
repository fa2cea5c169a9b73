//go:build kernel

package netfilter

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// holdLock takes the lock of the legacy tables, which all namespaces of the host
// share, until the test ends.
func holdLock(t *testing.T) {
	t.Helper()
	f, err := os.OpenFile("/run/xtables.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
}
