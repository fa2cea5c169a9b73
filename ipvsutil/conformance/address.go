// Package conformance holds the contracts of ipvsutil's doors as tests. The doubles
// of package fake run them in every unit test, the kernel runs them in a machine.
package conformance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
)

// Addresses is the door under test, with what cleanup and a strange hand can do.
type Addresses interface {
	ipvsutil.Addresses
	RemoveDevice(ctx context.Context) error
	RemoveRules(ctx context.Context) error
}

// RunAddresses tests that what new returns keeps the contract of
// ipvsutil.Addresses. Each call of new has to give an empty namespace whose
// loopback is up; it is called by the goroutine that then uses the door.
func RunAddresses(t *testing.T, open func(t *testing.T) Addresses) {
	RunAddressesWithoutDevice(t, open)
	t.Run("NoDevice", func(t *testing.T) { testNoDevice(t, open(t)) })
	t.Run("DeviceGone", func(t *testing.T) { testDeviceGone(t, open(t)) })
}

// RunAddressesWithoutDevice is RunAddresses for a door whose bound addresses do not
// depend on the device.
func RunAddressesWithoutDevice(t *testing.T, open func(t *testing.T) Addresses) {
	for name, test := range map[string]func(*testing.T, Addresses){
		"EnsureTwice":    testEnsureTwice,
		"Bind":           testBind,
		"Capture":        testCapture,
		"BindAndCapture": testBindAndCapture,
		"InBatches":      testInBatches,
		"MixedResults":   testMixedResults,
		"Invalid":        testInvalid,
		"Cleanup":        testCleanup,
		"NotInUse":       testNotInUse,
		"Leave":          testLeave,
		"Cancelled":      testCancelled,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

func testEnsureTwice(t *testing.T, a Addresses) {
	ensure(t, a)
	none(t, "bind", a.Bind(t.Context(), parse("10.96.0.1")))
	ensure(t, a)
	equal(t, a, "10.96.0.1", "")
}

func testBind(t *testing.T, a Addresses) {
	ctx := t.Context()
	ensure(t, a)
	equal(t, a, "", "")
	both := parse("10.96.0.10", "fd00:10:96::10")
	none(t, "bind", a.Bind(ctx, both))
	equal(t, a, "10.96.0.10 fd00:10:96::10", "")
	for i, err := range all(t, a.Bind(ctx, both), 2) {
		is(t, err, fs.ErrExist, both[i])
	}
	none(t, "unbind", a.Unbind(ctx, both[:1]))
	equal(t, a, "fd00:10:96::10", "")
	is(t, all(t, a.Unbind(ctx, both[:1]), 1)[0], fs.ErrNotExist, both[0])
	none(t, "unbind", a.Unbind(ctx, both[1:]))
	is(t, all(t, a.Unbind(ctx, both[1:]), 1)[0], fs.ErrNotExist, both[1])
	equal(t, a, "", "")
	none(t, "bind nothing", a.Bind(ctx, nil))
	none(t, "unbind nothing", a.Unbind(ctx, nil))
}

func testCapture(t *testing.T, a Addresses) {
	ctx := t.Context()
	ensure(t, a)
	both := parse("203.0.113.9", "2001:db8::9")
	none(t, "capture", a.Capture(ctx, both))
	equal(t, a, "", "203.0.113.9 2001:db8::9")
	for i, err := range all(t, a.Capture(ctx, both), 2) {
		is(t, err, fs.ErrExist, both[i])
	}
	none(t, "release", a.Release(ctx, both[1:]))
	equal(t, a, "", "203.0.113.9")
	is(t, all(t, a.Release(ctx, both[1:]), 1)[0], fs.ErrNotExist, both[1])
	none(t, "release", a.Release(ctx, both[:1]))
	is(t, all(t, a.Release(ctx, both[:1]), 1)[0], fs.ErrNotExist, both[0])
	equal(t, a, "", "")
	none(t, "capture nothing", a.Capture(ctx, nil))
	none(t, "release nothing", a.Release(ctx, nil))
}

// An address may change from captured to bound, both at once for a moment.
func testBindAndCapture(t *testing.T, a Addresses) {
	ctx := t.Context()
	ensure(t, a)
	addrs := parse("203.0.113.9", "2001:db8::9")
	none(t, "capture", a.Capture(ctx, addrs))
	none(t, "bind", a.Bind(ctx, addrs))
	equal(t, a, "203.0.113.9 2001:db8::9", "203.0.113.9 2001:db8::9")
	none(t, "release", a.Release(ctx, addrs))
	equal(t, a, "203.0.113.9 2001:db8::9", "")
}

// More than one batch of netlink messages, both families mixed.
func testInBatches(t *testing.T, a Addresses) {
	ctx := t.Context()
	ensure(t, a)
	var addrs []netip.Addr
	for i := range 150 {
		addrs = append(addrs, netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}),
			netip.MustParseAddr(fmt.Sprintf("fd00:10:96::1:%x", i)))
	}
	addrs = addrs[1:] // without 10.96.0.0; and an odd number
	none(t, "bind", a.Bind(ctx, addrs))
	none(t, "capture", a.Capture(ctx, addrs))
	want := slices.SortedFunc(slices.Values(addrs), netip.Addr.Compare)
	for what, list := range map[string]func(context.Context) ([]netip.Addr, error){"bound": a.Bound, "captured": a.Captured} {
		if got, err := list(ctx); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d addresses (%v), want %d, sorted", what, len(got), err, len(want))
		}
	}
	none(t, "unbind", a.Unbind(ctx, addrs))
	none(t, "release", a.Release(ctx, addrs))
	equal(t, a, "", "")
}

// One that fails does not stop those after it, and each error has its own place.
func testMixedResults(t *testing.T, a Addresses) {
	ctx := t.Context()
	ensure(t, a)
	addrs := parse("10.96.0.1", "fd00::1", "10.96.0.2", "10.96.0.2", "fd00::2", "fd00::1")
	for name, verbs := range map[string][2]func(context.Context, []netip.Addr) []error{
		"bind": {a.Bind, a.Unbind}, "capture": {a.Capture, a.Release},
	} {
		none(t, name, verbs[0](ctx, addrs[:1]))
		errs := all(t, verbs[0](ctx, addrs), len(addrs))
		for i, bad := range []bool{true, false, false, true, false, true} {
			if bad {
				is(t, errs[i], fs.ErrExist, addrs[i])
			} else if errs[i] != nil {
				t.Errorf("%s %s: %v", name, addrs[i], errs[i])
			}
		}
		errs = all(t, verbs[1](ctx, addrs), len(addrs))
		for i, bad := range []bool{false, false, false, true, false, true} {
			if bad {
				is(t, errs[i], fs.ErrNotExist, addrs[i])
			} else if errs[i] != nil {
				t.Errorf("undo of %s %s: %v", name, addrs[i], errs[i])
			}
		}
	}
	equal(t, a, "", "")
}

func testInvalid(t *testing.T, a Addresses) {
	ctx := t.Context()
	ensure(t, a)
	bad := append(parse("0.0.0.0", "::", "127.0.0.5", "::1", "224.0.0.5", "ff02::1", "255.255.255.255",
		"::ffff:10.96.0.1", "fe80::1", "fe80::1%eth0"), netip.Addr{})
	for _, do := range []func(context.Context, []netip.Addr) []error{a.Bind, a.Unbind, a.Leave, a.Capture, a.Release} {
		for i, err := range all(t, do(ctx, bad), len(bad)) {
			is(t, err, fs.ErrInvalid, bad[i])
		}
	}
	mixed := append(bad[:1:1], parse("10.96.0.9")...)
	if errs := all(t, a.Bind(ctx, mixed), 2); errs[1] != nil {
		t.Errorf("good address beside a bad one: %v", errs[1])
	}
	equal(t, a, "10.96.0.9", "")
}

func testNoDevice(t *testing.T, a Addresses) {
	ctx := t.Context()
	equal(t, a, "", "")
	addr := parse("10.96.0.1", "fd00::1")
	for i, err := range all(t, a.Bind(ctx, addr), 2) {
		is(t, err, ipvsutil.ErrNoDevice, addr[i])
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
			t.Errorf("bind without device gives %v, which says something about the address", err)
		}
	}
	for i, err := range all(t, a.Unbind(ctx, addr), 2) {
		is(t, err, ipvsutil.ErrNoDevice, addr[i])
		is(t, err, fs.ErrNotExist, addr[i])
	}
	for i, err := range all(t, a.Release(ctx, addr), 2) {
		is(t, err, fs.ErrNotExist, addr[i])
	}
}

// Another hand deletes the device: what was captured stays, Ensure and Bind mend the rest.
func testDeviceGone(t *testing.T, a Addresses) {
	ctx := t.Context()
	ensure(t, a)
	addr := parse("10.96.0.1", "fd00::1")
	none(t, "bind", a.Bind(ctx, addr))
	none(t, "capture", a.Capture(ctx, addr[:1]))
	if err := a.RemoveDevice(ctx); err != nil {
		t.Fatal(err)
	}
	equal(t, a, "", "10.96.0.1")
	is(t, all(t, a.Bind(ctx, addr[:1]), 1)[0], ipvsutil.ErrNoDevice, addr[0])
	ensure(t, a)
	none(t, "bind", a.Bind(ctx, addr))
	equal(t, a, "10.96.0.1 fd00::1", "10.96.0.1")
}

func testCleanup(t *testing.T, a Addresses) {
	ensure(t, a)
	for range 2 {
		if err := a.RemoveRules(t.Context()); err != nil {
			t.Errorf("remove rules: %v", err)
		}
		if err := a.RemoveDevice(t.Context()); err != nil {
			t.Errorf("remove device: %v", err)
		}
	}
	equal(t, a, "", "")
	ensure(t, a)
	none(t, "bind", a.Bind(t.Context(), parse("10.96.0.1")))
}

// No process talks from an address that nobody has.
func testNotInUse(t *testing.T, a Addresses) {
	if used, err := a.InUse(t.Context(), parse("10.96.0.1", "fd00::1")); len(used) > 0 || err != nil {
		t.Errorf("in use: %v, %v", used, err)
	}
}

// An address that is left is bound until it is unbound, and then nothing of it stays.
func testLeave(t *testing.T, a Addresses) {
	ctx := t.Context()
	ensure(t, a)
	addrs := parse("203.0.113.9", "fd20:113::9")
	none(t, "bind", a.Bind(ctx, addrs))
	for range 2 {
		none(t, "leave", a.Leave(ctx, addrs))
		equal(t, a, "203.0.113.9 fd20:113::9", "")
	}
	none(t, "unbind", a.Unbind(ctx, addrs))
	equal(t, a, "", "")
}

// A context that has ended changes nothing, and every request says so.
func testCancelled(t *testing.T, a Addresses) {
	ensure(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	addr := parse("10.96.0.1", "fd00::1")
	for _, do := range []func(context.Context, []netip.Addr) []error{a.Bind, a.Unbind, a.Leave, a.Capture, a.Release} {
		for i, err := range all(t, do(ctx, addr), 2) {
			is(t, err, context.Canceled, addr[i])
		}
	}
	for _, list := range []func(context.Context) ([]netip.Addr, error){a.Bound, a.Captured} {
		if got, err := list(ctx); !errors.Is(err, context.Canceled) || got != nil {
			t.Errorf("list gives %v, %v", got, err)
		}
	}
	if err := a.Ensure(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("ensure gives %v", err)
	}
	equal(t, a, "", "")
}
