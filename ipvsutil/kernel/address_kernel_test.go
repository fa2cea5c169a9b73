//go:build kernel

package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"

	vnetlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/conformance"
)

// newAddressSpace moves the test's goroutine into a network namespace of its own
// with loopback up. The thread is never unlocked, so it ends with the test.
func newAddressSpace(t *testing.T) *vnetlink.Handle {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("new network namespace: %v", err)
	}
	handle, err := vnetlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(handle.Close)
	lo, err := handle.LinkByName("lo")
	if err == nil {
		err = handle.LinkSetUp(lo)
	}
	if err != nil {
		t.Fatalf("lo up: %v", err)
	}
	return handle
}

func openAddresses(t *testing.T) *Addresses {
	t.Helper()
	a, err := OpenAddresses(t.Context(), ipvsutil.DefaultCaptureRoutes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

func TestAddressConformance(t *testing.T) {
	conformance.RunAddresses(t, func(t *testing.T) conformance.Addresses {
		newAddressSpace(t)
		return openAddresses(t)
	})
}

func TestAddressByRouteConformance(t *testing.T) {
	conformance.RunAddressesWithoutDevice(t, func(t *testing.T) conformance.Addresses {
		newAddressSpace(t)
		a := openAddresses(t)
		a.BindByRoute()
		return a
	})
}

// A start that binds in the other way than the one before sees and removes what that left.
func TestAddressBindingsChange(t *testing.T) {
	newAddressSpace(t)
	ctx := t.Context()
	byAddress, byRoute := openAddresses(t), openAddresses(t)
	byRoute.BindByRoute()
	if err := byAddress.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	addrs := []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::1")}
	for name, c := range map[string][2]*Addresses{"to route": {byAddress, byRoute}, "to address": {byRoute, byAddress}} {
		if errs := c[0].Bind(ctx, addrs); errs != nil {
			t.Fatalf("%s: bind: %v", name, errs)
		}
		if got, err := c[1].Bound(ctx); err != nil || !slices.Equal(got, addrs) {
			t.Errorf("%s: bound %v, %v; want %v", name, got, err, addrs)
		}
		if errs := c[1].Unbind(ctx, addrs); errs != nil {
			t.Errorf("%s: unbind: %v", name, errs)
		}
		if got, err := c[1].Bound(ctx); err != nil || len(got) != 0 {
			t.Errorf("%s: bound afterwards %v, %v", name, got, err)
		}
	}
}

// The device stays down, and what a second Ensure finds it does not touch.
func TestAddressEnsureWritesOnce(t *testing.T) {
	handle := newAddressSpace(t)
	a := openAddresses(t)
	if err := a.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	link, err := handle.LinkByName(ipvsutil.Device)
	if err != nil {
		t.Fatal(err)
	}
	if link.Type() != "dummy" || link.Attrs().Flags&net.FlagUp != 0 {
		t.Errorf("device is %s with flags %v, want a dummy that is down", link.Type(), link.Attrs().Flags)
	}
	if err := a.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := handle.LinkByName(ipvsutil.Device)
	if err != nil || again.Attrs().Index != link.Attrs().Index {
		t.Errorf("device was made anew: %v, %v", again, err)
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := handle.RuleList(family)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, r := range rules {
			if r.Priority == 98 {
				found++
				if r.Mark != 0x8000 || r.Mask == nil || *r.Mask != 0x8000 || r.Table != 0x4950 || r.Protocol != 150 {
					t.Errorf("family %d: rule %+v", family, r)
				}
			}
		}
		if found != 1 {
			t.Errorf("family %d: %d rules of priority 98, want 1", family, found)
		}
	}
}

// RemoveRules takes ours at any priority and leaves those of others.
func TestAddressRemoveRulesLeavesForeignOnes(t *testing.T) {
	handle := newAddressSpace(t)
	a := openAddresses(t)
	foreign := a.rule(unix.AF_INET)
	foreign.Table, foreign.Priority = 77, 97
	old := a.rule(unix.AF_INET)
	old.Priority = 200
	for _, r := range []*vnetlink.Rule{foreign, old} {
		if err := handle.RuleAdd(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := a.RemoveRules(t.Context()); err != nil {
		t.Fatal(err)
	}
	rules, err := handle.RuleList(unix.AF_INET)
	if err != nil {
		t.Fatal(err)
	}
	var left []int
	for _, r := range rules {
		left = append(left, r.Priority)
	}
	slices.Sort(left)
	if want := []int{0, 97, 32766, 32767}; !slices.Equal(left, want) {
		t.Errorf("priorities left %v, want %v", left, want)
	}
}

// What others put on the device or into the table is neither listed nor removed.
func TestAddressStrangers(t *testing.T) {
	handle := newAddressSpace(t)
	a := openAddresses(t)
	ctx := t.Context()
	if err := a.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	link, err := handle.LinkByName(ipvsutil.Device)
	if err != nil {
		t.Fatal(err)
	}
	lo, err := handle.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	for text, on := range map[string]vnetlink.Link{"10.1.0.1/24": link, "192.0.2.7/32": lo, "fe80::7/64": link} {
		addr, err := vnetlink.ParseAddr(text)
		if err == nil {
			err = handle.AddrAdd(on, addr)
		}
		if err != nil {
			t.Fatalf("add %s: %v", text, err)
		}
	}
	_, dst, _ := net.ParseCIDR("203.0.113.9/32")
	route := &vnetlink.Route{LinkIndex: 1, Dst: dst, Table: 0x4950, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST, Protocol: 99}
	if err := handle.RouteAdd(route); err != nil {
		t.Fatal(err)
	}
	if got, err := a.Bound(ctx); err != nil || len(got) != 0 {
		t.Errorf("bound %v, %v; want none", got, err)
	}
	if got, err := a.Captured(ctx); err != nil || len(got) != 0 {
		t.Errorf("captured %v, %v; want none", got, err)
	}
	errs := a.Release(ctx, []netip.Addr{netip.MustParseAddr("203.0.113.9")})
	if len(errs) != 1 || !errors.Is(errs[0], fs.ErrNotExist) {
		t.Errorf("release of a foreign route gives %v", errs)
	}
}

func TestAddressIPv6Disabled(t *testing.T) {
	newAddressSpace(t)
	a := openAddresses(t)
	ctx := t.Context()
	if err := a.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0o644); err != nil {
		t.Fatal(err)
	}
	addrs := []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("fd00::1")}
	for name, do := range map[string]func(context.Context, []netip.Addr) []error{"bind": a.Bind, "capture": a.Capture} {
		errs := do(ctx, addrs)
		if len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], ipvsutil.ErrIPv6Disabled) {
			t.Errorf("%s: %v, want %v for the second", name, errs, ipvsutil.ErrIPv6Disabled)
		}
	}
	if err := a.Ensure(ctx); err != nil {
		t.Errorf("ensure: %v", err)
	}
	if got, err := a.Bound(ctx); err != nil || !slices.Equal(got, addrs[:1]) {
		t.Errorf("bound %v, %v", got, err)
	}
}

func TestAddressOfOtherKindStays(t *testing.T) {
	handle := newAddressSpace(t)
	a := openAddresses(t)
	attrs := vnetlink.NewLinkAttrs()
	attrs.Name = ipvsutil.Device
	if err := handle.LinkAdd(&vnetlink.Bridge{LinkAttrs: attrs}); err != nil {
		t.Fatal(err)
	}
	if err := a.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if errs := a.Bind(t.Context(), []netip.Addr{netip.MustParseAddr("10.96.0.1")}); errs != nil {
		t.Errorf("bind on a device of another kind: %v", errs)
	}
	if err := a.RemoveDevice(t.Context()); err == nil {
		t.Error("a bridge was removed")
	}
	if _, err := handle.LinkByName(ipvsutil.Device); err != nil {
		t.Errorf("the bridge is gone: %v", err)
	}
}

// A listing under change is whole or an error, never a part.
func TestAddressListUnderChange(t *testing.T) {
	newAddressSpace(t)
	a, other := openAddresses(t), openAddresses(t)
	ctx := t.Context()
	if err := a.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	var stay []netip.Addr
	for i := range 200 {
		stay = append(stay, netip.MustParseAddr(fmt.Sprintf("fd00::%x", i+1)), netip.AddrFrom4([4]byte{10, 96, 1, byte(i)}))
	}
	if errs := a.Bind(ctx, stay); errs != nil {
		t.Fatal(errs)
	}
	stop := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		change := []netip.Addr{netip.MustParseAddr("10.96.2.1"), netip.MustParseAddr("fd00::ffff")}
		for {
			select {
			case <-stop:
				return
			default:
			}
			other.Bind(ctx, change)
			other.Unbind(ctx, change)
		}
	})
	whole, failed := 0, 0
	for range 100 {
		got, err := a.Bound(ctx)
		if err != nil {
			failed++
			if got != nil {
				t.Errorf("error %v with %d addresses", err, len(got))
			}
			continue
		}
		whole++
		for _, addr := range stay {
			if _, ok := slices.BinarySearchFunc(got, addr, netip.Addr.Compare); !ok {
				t.Fatalf("%s is missing in a list of %d", addr, len(got))
			}
		}
	}
	close(stop)
	done.Wait()
	t.Logf("%d whole lists, %d errors", whole, failed)
	if whole == 0 {
		t.Error("no listing got through")
	}
}
