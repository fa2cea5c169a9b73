//go:build kernel

package kernel

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipsetutil/conformance"
)

// inNamespace puts the test's thread, and all programs it starts, into a network
// namespace of its own. The thread ends with the test, and with it the namespace.
func inNamespace(t testing.TB) {
	t.Helper()
	runtime.LockOSThread() // and never unlock: the runtime ends the thread
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("new network namespace: %v", err)
	}
}

// open returns a door to a namespace without sets.
func open(t testing.TB) *Conn {
	t.Helper()
	inNamespace(t)
	c, err := Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// command runs a program in the test's namespace.
func command(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func TestConformance(t *testing.T) {
	conformance.RunSets(t, func(t *testing.T) ipsetutil.Sets { return open(t) })
}
