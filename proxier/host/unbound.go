package host

import (
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// rtnlgrpIPv6Rule is RTNLGRP_IPV6_RULE (include/uapi/linux/rtnetlink.h).
const rtnlgrpIPv6Rule = 19

// Unbound gives the addresses that went from ipvsutil.Device while a Watch is under
// way, whoever removed them: the proxy itself or another. Those not taken yet come
// together.
func (n *Node) Unbound() <-chan []netip.Addr { return n.unbound }

// went notes an address that a message says was removed. Only one goroutine sends, so
// that after taking out what waits the channel has room.
func (n *Node) went(message []byte) {
	attrs, err := nl.ParseRouteAttr(message[unix.SizeofIfAddrmsg:])
	if err != nil {
		return
	}
	for _, a := range attrs {
		if a.Attr.Type != unix.IFA_ADDRESS {
			continue
		}
		addr, ok := netip.AddrFromSlice(a.Value)
		if !ok {
			return
		}
		var gone []netip.Addr
		select {
		case gone = <-n.unbound:
		default:
		}
		n.unbound <- append(gone, addr)
		return
	}
}

// priorityOf returns the priority in a message about a policy rule; zero: it has none.
func priorityOf(message []byte) uint32 {
	if len(message) < unix.SizeofRtMsg {
		return 0
	}
	attrs, err := nl.ParseRouteAttr(message[unix.SizeofRtMsg:])
	if err != nil {
		return 0
	}
	for _, a := range attrs {
		if a.Attr.Type == unix.FRA_PRIORITY && len(a.Value) == 4 {
			return nl.NativeEndian().Uint32(a.Value)
		}
	}
	return 0
}
