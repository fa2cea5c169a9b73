//go:build kernel

package host

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	vnetlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
)

// These tests need no dummy device: a bridge of that name does. They run in
// namespaces of any kernel, as root.

// newSpace moves the test's goroutine into a network namespace of its own, with lo
// up, a pair of veth devices and the device of the bound addresses.
func newSpace(t *testing.T) (*vnetlink.Handle, *Node) {
	t.Helper()
	runtime.LockOSThread() // never unlocked: the thread ends with the test
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("new network namespace: %v", err)
	}
	handle, err := vnetlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(handle.Close)
	attrs := vnetlink.NewLinkAttrs()
	attrs.Name = "eth0"
	for _, err := range []error{
		handle.LinkSetUp(link(t, handle, "lo")),
		handle.LinkAdd(&vnetlink.Veth{LinkAttrs: attrs, PeerName: "peer0"}),
		makeDevice(handle),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	node, err := OpenNode()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Close() })
	return handle, node
}

func makeDevice(handle *vnetlink.Handle) error {
	attrs := vnetlink.NewLinkAttrs()
	attrs.Name = ipvsutil.Device
	return handle.LinkAdd(&vnetlink.Bridge{LinkAttrs: attrs})
}

func link(t *testing.T, handle *vnetlink.Handle, name string) vnetlink.Link {
	t.Helper()
	l, err := handle.LinkByName(name)
	if err != nil {
		t.Fatalf("device %s: %v", name, err)
	}
	return l
}

func add(t *testing.T, handle *vnetlink.Handle, device, cidr string) {
	t.Helper()
	addr, err := vnetlink.ParseAddr(cidr)
	if err != nil {
		t.Fatal(err)
	}
	addr.Flags = unix.IFA_F_NODAD
	if err := handle.AddrAdd(link(t, handle, device), addr); err != nil {
		t.Fatalf("add %s to %s: %v", cidr, device, err)
	}
}

func remove(t *testing.T, handle *vnetlink.Handle, device, cidr string) {
	t.Helper()
	addr, err := vnetlink.ParseAddr(cidr)
	if err != nil {
		t.Fatal(err)
	}
	if err := handle.AddrDel(link(t, handle, device), addr); err != nil {
		t.Fatalf("delete %s from %s: %v", cidr, device, err)
	}
}

// next waits for an event that has all of want; more may come first, as links settle.
func next(t *testing.T, events <-chan Event, want Event) {
	t.Helper()
	timeout := time.After(5 * time.Second)
	for {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatal("channel closed")
			}
			if e.Has(want) {
				return
			}
		case <-timeout:
			t.Fatalf("no event %q within 5 s", want)
		}
	}
}

// quiet fails when an event comes.
func quiet(t *testing.T, events <-chan Event) {
	t.Helper()
	select {
	case e := <-events:
		t.Fatalf("event %q, want none", e)
	case <-time.After(300 * time.Millisecond):
	}
}

func TestNodeAddresses(t *testing.T) {
	handle, node := newSpace(t)
	add(t, handle, "eth0", "192.0.2.11/24")
	add(t, handle, "eth0", "2001:db8::11/64")
	add(t, handle, "eth0", "fe80::11/64")
	add(t, handle, "lo", "198.51.100.7/32")
	add(t, handle, "peer0", "192.0.2.11/32") // the same twice
	add(t, handle, ipvsutil.Device, "10.96.0.1/32")
	add(t, handle, ipvsutil.Device, "fd00::1/128")
	got, err := node.Addresses(t.Context())
	want := addrs("127.0.0.1 192.0.2.11 198.51.100.7 ::1 2001:db8::11 fe80::11")
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
	for _, addr := range got {
		if addr.Is4In6() || addr.Zone() != "" {
			t.Errorf("%v is no plain address", addr)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := node.Addresses(ctx); err == nil || got != nil {
		t.Errorf("ended context: %v, %v", got, err)
	}
	if err := handle.LinkDel(link(t, handle, ipvsutil.Device)); err != nil {
		t.Fatal(err)
	}
	if got, err := node.Addresses(t.Context()); err != nil || !slices.Equal(got, want) {
		t.Errorf("without device: %v, %v; want %v", got, err, want)
	}
}

func TestWatchAddresses(t *testing.T) {
	handle, node := newSpace(t)
	events, err := node.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	quiet(t, events)
	for _, cidr := range []string{"192.0.2.50/24", "2001:db8::50/64"} {
		add(t, handle, "eth0", cidr)
		next(t, events, NodeAddresses)
		quiet(t, events)
		remove(t, handle, "eth0", cidr)
		next(t, events, NodeAddresses)
		quiet(t, events)
	}
	add(t, handle, "eth0", "192.0.2.51/24")
	next(t, events, NodeAddresses)
	if err := handle.LinkDel(link(t, handle, "eth0")); err != nil {
		t.Fatal(err)
	}
	next(t, events, NodeAddresses)
}

// What the proxy does itself does not wake it; the loss of the device does.
func TestWatchDevice(t *testing.T) {
	handle, node := newSpace(t)
	events, err := node.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	add(t, handle, ipvsutil.Device, "10.96.0.1/32")
	add(t, handle, ipvsutil.Device, "fd00::1/128")
	remove(t, handle, ipvsutil.Device, "10.96.0.1/32")
	quiet(t, events)
	if gone := <-node.Unbound(); !slices.Equal(gone, []netip.Addr{netip.MustParseAddr("10.96.0.1")}) {
		t.Errorf("unbound: %v", gone)
	}

	if err := handle.LinkDel(link(t, handle, ipvsutil.Device)); err != nil {
		t.Fatal(err)
	}
	next(t, events, DeviceGone)
	quiet(t, events)
	if err := makeDevice(handle); err != nil {
		t.Fatal(err)
	}
	add(t, handle, ipvsutil.Device, "10.96.0.1/32")
	quiet(t, events)

	if err := handle.LinkSetName(link(t, handle, ipvsutil.Device), "other"); err != nil {
		t.Fatal(err)
	}
	next(t, events, DeviceGone)
	add(t, handle, "other", "10.96.0.2/32")
	next(t, events, NodeAddresses)
}

// Binding thousands of addresses does not wake the process; unbinding does.
func TestWatchIsDeafToItsOwn(t *testing.T) {
	handle, node := newSpace(t)
	w := &watcher{node: node, events: make(chan Event, 1)}
	if err := w.subscribe(t.Context()); err != nil {
		t.Fatal(err)
	}
	heard := func() bool {
		t.Helper()
		n, _, err := unix.Recvfrom(w.socket.GetFd(), make([]byte, 1<<16), unix.MSG_DONTWAIT)
		return err == nil && n > 0
	}
	for heard() { // links that settle
		time.Sleep(10 * time.Millisecond)
	}
	add(t, handle, ipvsutil.Device, "10.96.0.1/32")
	add(t, handle, ipvsutil.Device, "fd00::1/128")
	if heard() {
		t.Error("an address that came to the device was told")
	}
	remove(t, handle, ipvsutil.Device, "10.96.0.1/32")
	if !heard() {
		t.Error("an address that went from the device was not told")
	}
	add(t, handle, "eth0", "192.0.2.1/32")
	if !heard() {
		t.Error("an address of another device was not told")
	}
	w.moved(0)
	add(t, handle, ipvsutil.Device, "10.96.0.2/32")
	if !heard() {
		t.Error("an address was not told after the device had gone")
	}
}

// The rule that captures is known by its priority.
func TestWatchRule(t *testing.T) {
	handle, node := newSpace(t)
	events, err := node.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range []int{vnetlink.FAMILY_V4, vnetlink.FAMILY_V6} {
		for priority, want := range map[uint32]Event{ipvsutil.DefaultCaptureRoutes.Priority: RuleGone, 1000: 0} {
			rule := vnetlink.NewRule()
			rule.Family, rule.Priority, rule.Table, rule.Mark = family, int(priority), 7, 1
			if err := handle.RuleAdd(rule); err != nil {
				t.Fatal(err)
			}
			quiet(t, events)
			if err := handle.RuleDel(rule); err != nil {
				t.Fatal(err)
			}
			if want != 0 {
				next(t, events, want)
			}
			quiet(t, events)
		}
	}
}

// A full buffer is told as a change: nobody knows what was lost.
func TestWatchOverflow(t *testing.T) {
	handle, node := newSpace(t)
	w := &watcher{node: node, events: make(chan Event, 1)}
	if err := w.subscribe(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := w.socket.SetReceiveBufferSize(0, false); err != nil {
		t.Fatal(err)
	}
	for range 50 { // by themselves, these are no events
		add(t, handle, ipvsutil.Device, "10.96.0.1/32")
		remove(t, handle, ipvsutil.Device, "10.96.0.1/32")
	}
	go w.run(t.Context())
	next(t, w.events, NodeAddresses)
}

// Lost messages and a broken socket count as a change; afterwards events go on.
func TestWatchRecovers(t *testing.T) {
	handle, node := newSpace(t)
	w := &watcher{node: node, events: make(chan Event, 1)}
	if err := w.subscribe(t.Context()); err != nil {
		t.Fatal(err)
	}
	broken := w.socket
	if err := broken.SetReceiveBufferSize(0, false); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		add(t, handle, ipvsutil.Device, "10.96.0.1/32")
		remove(t, handle, ipvsutil.Device, "10.96.0.1/32")
	}
	if err := handle.LinkDel(link(t, handle, ipvsutil.Device)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go w.run(ctx) // only now: the buffer is full
	var lost Event
	for lost != NodeAddresses|DeviceGone {
		select {
		case e := <-w.events:
			lost |= e
		case <-time.After(5 * time.Second):
			t.Fatalf("full buffer: only event %q", lost)
		}
	}
	broken.Close()
	next(t, w.events, NodeAddresses)
	add(t, handle, "eth0", "192.0.2.50/24")
	next(t, w.events, NodeAddresses)
	cancel()
	for {
		select {
		case _, ok := <-w.events:
			if !ok {
				return
			}
		case <-time.After(5 * time.Second):
			t.Fatal("channel stays open after the end of the context")
		}
	}
}

// The real settings and probes of this kernel: what it has passes.
func TestPreflightKernel(t *testing.T) {
	handle, _ := newSpace(t)
	if err := handle.LinkDel(link(t, handle, ipvsutil.Device)); err != nil {
		t.Fatal(err)
	}
	for _, p := range Probes(ProbeOptions{IPv6: true}) {
		err := p.Check(t.Context())
		t.Logf("%s: %v", p.Name, err)
		if err != nil && (p.Name == "ip_set" || p.Name == "xt_set" || p.Name == "iptables" || p.Name == "ip6tables") {
			t.Errorf("%s: %v", p.Name, err)
		}
		if has := hasIPVS(); p.Name == "ip_vs" && (err == nil) != has {
			t.Errorf("ip_vs: %v, but /proc/net/ip_vs there is %v", err, has)
		}
		if p.Name == "dummy" && hasIPVS() && err != nil { // the machine has both
			t.Errorf("dummy: %v", err)
		}
	}
	if _, err := handle.LinkByName(probeDevice); err == nil {
		t.Error("the probe left its device")
	}
}

// hasIPVS looks after the probe, which lets the kernel load the module.
func hasIPVS() bool {
	_, err := os.Stat("/proc/thread-self/net/ip_vs")
	return err == nil
}

func TestSysctlsKernel(t *testing.T) {
	newSpace(t)
	release, err := KernelRelease(ProcSys)
	if err != nil {
		t.Fatal(err)
	}
	problems := EnsureSysctls(ProcSys, Sysctls(SysctlOptions{Release: release, IPv6: true, StrictARP: true}))
	for _, p := range problems {
		t.Log(p)
		if filepath.Dir(p.Key) == "net/ipv4/vs" && !hasIPVS() {
			continue // a kernel without IPVS: it has to be told, and it is
		}
		if p.Key != "net/ipv6/conf/all/forwarding" || p.Err != nil {
			t.Errorf("stays wrong: %s", p)
		}
	}
	for key, want := range map[string]string{"net/ipv4/ip_forward": "1\n", "net/ipv4/conf/all/arp_announce": "2\n", "net/ipv6/conf/all/forwarding": "0\n"} {
		if got := content(t, ProcSys, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
	}
	if n, err := OnlineCPUs(Sys); err != nil || n < 1 {
		t.Errorf("online CPUs: %d, %v", n, err)
	}
}
