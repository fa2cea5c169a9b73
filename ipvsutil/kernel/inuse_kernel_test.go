//go:build kernel

package kernel

import (
	"net"
	"net/netip"
	"slices"
	"testing"

	vnetlink "github.com/vishvananda/netlink"
)

// TestInUse: an address is in use by who has it as its own end, and by nobody else; a
// socket that only listens counts for nothing.
func TestInUse(t *testing.T) {
	handle := newAddressSpace(t)
	a := openAddresses(t)
	lo, err := handle.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	mine := []netip.Addr{netip.MustParseAddr("203.0.113.9"), netip.MustParseAddr("fd20:113::9")}
	others := []netip.Addr{netip.MustParseAddr("203.0.113.10"), netip.MustParseAddr("fd20:113::a")}
	for _, addr := range slices.Concat(mine, others) {
		net := &net.IPNet{IP: addr.AsSlice(), Mask: net.CIDRMask(addr.BitLen(), addr.BitLen())}
		if err := handle.AddrAdd(lo, &vnetlink.Addr{IPNet: net, Flags: 0x02 /* no DAD */}); err != nil {
			t.Fatal(err)
		}
	}
	used := func() []netip.Addr {
		t.Helper()
		list, err := a.InUse(t.Context(), slices.Concat(mine, others))
		if err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(list, netip.Addr.Compare)
		return list
	}
	var ends []net.Conn
	for i, addr := range mine {
		// The server's end is on another port of loopback, so that only the client has addr.
		loopback := []string{"127.0.0.1:0", "[::1]:0"}[i]
		l, err := net.Listen("tcp", loopback)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		both, err := net.Listen("tcp", netip.AddrPortFrom(others[i], 0).String())
		if err != nil {
			t.Fatal(err)
		}
		defer both.Close()
		from := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0))}
		c, err := from.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, c)
	}
	if got := used(); !slices.Equal(got, mine) {
		t.Errorf("in use: %v, want %v", got, mine)
	}
	for _, c := range ends {
		if err := c.(*net.TCPConn).SetLinger(0); err != nil { // a reset, after which nothing waits
			t.Error(err)
		}
		_ = c.Close()
	}
	if got := used(); len(got) > 0 {
		t.Errorf("in use after the end: %v", got)
	}
}
