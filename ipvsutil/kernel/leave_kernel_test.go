//go:build kernel

package kernel

import (
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	vnetlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TestLeave: before, a process that asks a bound address has it as its source; after, one
// that begins has the host's own and one that began goes on, until the address is unbound,
// of which no route stays.
func TestLeave(t *testing.T) {
	handle := newAddressSpace(t)
	a := openAddresses(t)
	own := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("fd30::1")}
	bound := []netip.Addr{netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("fd20:113::9")}
	attrs := vnetlink.NewLinkAttrs()
	attrs.Name = "eth0"
	eth0 := &vnetlink.Dummy{LinkAttrs: attrs}
	if err := handle.LinkAdd(eth0); err != nil {
		t.Fatal(err)
	}
	for _, addr := range own {
		network := &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}
		if err := handle.AddrAdd(eth0, &vnetlink.Addr{IPNet: network, Flags: unix.IFA_F_NODAD}); err != nil {
			t.Fatal(err)
		}
	}
	if err := handle.LinkSetUp(eth0); err != nil {
		t.Fatal(err)
	}
	if err := a.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if errs := a.Bind(t.Context(), bound); errs != nil {
		t.Fatal(errs)
	}
	var servers []*net.UDPConn
	for i := range bound {
		servers = append(servers, listenAt(t, bound[i]))
	}
	before := connectAll(t, servers, bound)
	for range 2 { // twice is once
		if errs := a.Leave(t.Context(), bound); errs != nil {
			t.Fatal(errs)
		}
		connectAll(t, servers, own)
		for i, c := range before {
			exchange(t, c, servers[i])
		}
		if list, err := a.Bound(t.Context()); err != nil || !slices.Equal(list, bound) {
			t.Errorf("bound: %v, %v", list, err)
		}
	}
	if used, err := a.InUse(t.Context(), slices.Concat(bound, own)); err != nil || !slices.Contains(used, bound[0]) || !slices.Contains(used, bound[1]) {
		t.Errorf("in use: %v, %v", used, err)
	}
	if errs := a.Unbind(t.Context(), bound); errs != nil {
		t.Fatal(errs)
	}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := handle.RouteListFiltered(family, &vnetlink.Route{Table: unix.RT_TABLE_LOCAL}, vnetlink.RT_FILTER_TABLE)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range routes {
			if r.Dst != nil && (r.Dst.IP.Equal(bound[0].AsSlice()) || r.Dst.IP.Equal(bound[1].AsSlice())) {
				t.Errorf("stays: %v", r)
			}
		}
	}
}

// TestLeaveWithoutAnother: where the host has nothing but the bound address, that stays
// the source, and it is no failure.
func TestLeaveWithoutAnother(t *testing.T) {
	newAddressSpace(t)
	a := openAddresses(t)
	addrs := []netip.Addr{netip.MustParseAddr("203.0.113.9")}
	if errs := a.Leave(t.Context(), addrs); len(errs) != 1 || errs[0] == nil {
		t.Errorf("without the device: %v", errs)
	}
	if err := a.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if errs := a.Bind(t.Context(), addrs); errs != nil {
		t.Fatal(errs)
	}
	if errs := a.Leave(t.Context(), addrs); errs != nil {
		t.Error(errs)
	}
	connectAll(t, []*net.UDPConn{listenAt(t, addrs[0])}, addrs)
}

func listenAt(t *testing.T, addr netip.Addr) *net.UDPConn {
	t.Helper()
	s, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// connectAll connects a socket to each server, which wants to see these sources.
func connectAll(t *testing.T, servers []*net.UDPConn, sources []netip.Addr) []*net.UDPConn {
	t.Helper()
	var all []*net.UDPConn
	for i, s := range servers {
		c, err := net.DialUDP("udp", nil, s.LocalAddr().(*net.UDPAddr))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if from := exchange(t, c, s); from != sources[i] {
			t.Errorf("%v is asked from %v, want %v", s.LocalAddr(), from, sources[i])
		}
		all = append(all, c)
	}
	return all
}

// exchange asks, answers, and returns who asked.
func exchange(t *testing.T, c, s *net.UDPConn) netip.Addr {
	t.Helper()
	limit := time.Now().Add(10 * time.Second)
	for _, end := range []*net.UDPConn{c, s} {
		if err := end.SetDeadline(limit); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Write([]byte("?")); err != nil {
		t.Fatal(err)
	}
	_, from, err := s.ReadFromUDPAddrPort(make([]byte, 1))
	if err == nil {
		_, err = s.WriteToUDPAddrPort([]byte("!"), from)
	}
	if err == nil {
		_, err = c.Read(make([]byte, 1))
	}
	if err != nil {
		t.Fatalf("from %v to %v: %v", c.LocalAddr(), s.LocalAddr(), err)
	}
	return from.Addr().Unmap()
}
