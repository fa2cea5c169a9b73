//go:build kernel

package netfilter

import (
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/coreos/go-iptables/iptables"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
)

// newNamespace moves the test into a fresh network namespace with lo up and all sets
// made, and back at its end.
func newNamespace(t testing.TB) {
	t.Helper()
	runtime.LockOSThread()
	old, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("new network namespace (needs root): %v", err)
	}
	t.Cleanup(func() {
		defer unix.Close(old)
		if err := unix.Setns(old, unix.CLONE_NEWNET); err != nil {
			t.Errorf("back to the old namespace: %v", err)
			return // the thread stays locked and ends with the goroutine
		}
		runtime.UnlockOSThread()
	})
	command(t, "", "ip", "link", "set", "lo", "up")
	makeSets(t)
}

// makeSets makes every set with the program that operators use.
func makeSets(t testing.TB) {
	t.Helper()
	var b strings.Builder
	for _, s := range ipsetutil.All() {
		fmt.Fprintf(&b, "create %s %s", s.Name, s.Type)
		if s.Type == ipsetutil.BitmapPort {
			b.WriteString(" range 0-65535\n")
			continue
		}
		fmt.Fprintf(&b, " family %s hashsize 1024 maxelem %d", s.Family, s.MaxElem)
		if s.Marks {
			b.WriteString(" skbinfo")
		}
		b.WriteByte('\n')
	}
	command(t, b.String(), "ipset", "restore")
}

// command runs a program, fails the test when it fails, and returns what it printed.
func command(t testing.TB, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// eachBackend runs the test in a fresh namespace for each back end, with rules for
// both families.
func eachBackend(t *testing.T, test func(t *testing.T, h *host)) {
	for _, backend := range []Backend{BackendNFT, BackendLegacy} {
		t.Run(string(backend), func(t *testing.T) {
			newNamespace(t)
			test(t, newHost(t, backend))
		})
	}
}

// host is a namespace under test, seen through the programs of one back end.
type host struct {
	t       testing.TB
	flags   Flags
	backend Backend
}

func newHost(t testing.TB, backend Backend) *host {
	t.Helper()
	features, err := Probe(context.Background(), backend)
	if err != nil {
		t.Fatal(err)
	}
	flags := podNetwork()
	flags.Backend = backend
	flags.IPVSMatch, flags.RandomFully = features.IPVSMatch, features.RandomFully
	return &host{t: t, flags: flags, backend: backend}
}

// rules returns a new door; it must serve both families.
func (h *host) rules() *Rules {
	h.t.Helper()
	r, err := New(context.Background(), h.flags)
	if err != nil {
		h.t.Fatal(err)
	}
	if len(r.Notes()) > 0 {
		h.t.Fatalf("notes: %q", r.Notes())
	}
	return r
}

// ensured returns a door whose rules are written.
func (h *host) ensured() *Rules {
	h.t.Helper()
	r := h.rules()
	h.ensure(r, true)
	return r
}

// ensure calls Ensure and compares what it says about writing.
func (h *host) ensure(r *Rules, wantChanged bool) {
	h.t.Helper()
	changed, err := r.Ensure(context.Background())
	if err != nil {
		h.t.Fatalf("Ensure: %v", err)
	}
	if changed != wantChanged {
		h.t.Fatalf("Ensure: changed %v, want %v", changed, wantChanged)
	}
}

// wantRight and wantWrong compare what Check says.
func (h *host) wantRight(r *Rules) {
	h.t.Helper()
	if found, err := r.Diff(context.Background()); err != nil || len(found) > 0 {
		h.t.Fatalf("want all right, found %q, %v", found, err)
	}
}

func (h *host) wantWrong(r *Rules) {
	h.t.Helper()
	if ok, err := r.Check(context.Background()); err != nil || ok {
		h.t.Fatalf("Check: %v, %v; want damage to be seen", ok, err)
	}
}

// run runs iptables or ip6tables of the back end.
func (h *host) run(ipv6 bool, args ...string) string {
	h.t.Helper()
	return command(h.t, "", program(h.backend, ipv6, ""), append([]string{"-w", "5"}, args...)...)
}

// restore gives lines to iptables-restore --noflush.
func (h *host) restore(ipv6 bool, lines string) {
	h.t.Helper()
	command(h.t, lines, program(h.backend, ipv6, "-restore"), "-w", "5", "--noflush")
}

// save returns the rules of both families, without comments and counters.
func (h *host) save() string {
	h.t.Helper()
	var kept []string
	for _, ipv6 := range []bool{false, true} {
		for line := range strings.Lines(command(h.t, "", program(h.backend, ipv6, "-save"))) {
			if strings.HasPrefix(line, "#") {
				continue
			}
			if strings.HasPrefix(line, ":") {
				line, _, _ = strings.Cut(line, " [")
				line += "\n"
			}
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

// list returns the rules of a chain as go-iptables reads them.
func (h *host) list(ipv6 bool, table, chain string) []string {
	h.t.Helper()
	protocol := iptables.ProtocolIPv4
	if ipv6 {
		protocol = iptables.ProtocolIPv6
	}
	ipt, err := iptables.New(iptables.IPFamily(protocol), iptables.Timeout(5), iptables.Path(program(h.backend, ipv6, "")))
	if err != nil {
		h.t.Fatal(err)
	}
	rules, err := ipt.List(table, chain)
	if err != nil {
		h.t.Fatal(err)
	}
	return rules[1:] // the first is the policy
}

func program(backend Backend, ipv6 bool, suffix string) string {
	name := "iptables-"
	if ipv6 {
		name = "ip6tables-"
	}
	return name + string(backend) + suffix
}
