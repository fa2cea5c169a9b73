package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// loopbackIndex is the index of lo, the first device of every network namespace.
const loopbackIndex = 1

// Capture implements ipvsutil.Addresses.
func (a *Addresses) Capture(ctx context.Context, addrs []netip.Addr) []error {
	return a.addRoutes(ctx, "capture", a.routes, addrs)
}

// Release implements ipvsutil.Addresses. Only a route with our protocol number is removed.
func (a *Addresses) Release(ctx context.Context, addrs []netip.Addr) []error {
	return a.deleteRoutes(ctx, "release", a.routes, addrs)
}

// addRoutes adds one local route an address to the table of routes.
func (a *Addresses) addRoutes(ctx context.Context, op string, routes ipvsutil.CaptureRoutes, addrs []netip.Addr) []error {
	return a.batch(ctx, op, addrs, func(addr netip.Addr) netlink.Request {
		return routeRequest(unix.RTM_NEWROUTE, routes, addr)
	}, addRouteError)
}

// deleteRoutes deletes what addRoutes added.
func (a *Addresses) deleteRoutes(ctx context.Context, op string, routes ipvsutil.CaptureRoutes, addrs []netip.Addr) []error {
	return a.batch(ctx, op, addrs, func(addr netip.Addr) netlink.Request {
		return routeRequest(unix.RTM_DELROUTE, routes, addr)
	}, deleteRouteError)
}

// addRouteError gives the kernel's answer to RTM_NEWROUTE its meaning.
func addRouteError(addr netip.Addr, err error) error {
	switch {
	case addr.Is6() && isNoIPv6(err), addr.Is6() && errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w on lo: %w", ipvsutil.ErrIPv6Disabled, err)
	case errors.Is(err, unix.ENETDOWN):
		return fmt.Errorf("device lo is down: %w", err)
	}
	return err
}

// deleteRouteError gives the kernel's answer to RTM_DELROUTE its meaning.
func deleteRouteError(_ netip.Addr, err error) error {
	if errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("%w (%w)", fs.ErrNotExist, err)
	}
	return err
}

// Captured implements ipvsutil.Addresses; the addresses are sorted. Routes of the
// table that carry another protocol number are not ours and left out.
func (a *Addresses) Captured(ctx context.Context) ([]netip.Addr, error) {
	return a.list(ctx, "captured addresses", func(ctx context.Context) ([]netip.Addr, error) {
		return a.dumpRoutes(ctx, a.routes)
	})
}

// dumpRoutes lists our local routes in the table of routes.
func (a *Addresses) dumpRoutes(ctx context.Context, routes ipvsutil.CaptureRoutes) ([]netip.Addr, error) {
	var addrs []netip.Addr
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		err := a.socket.Dump(ctx, routeDump(family, routes), func(body []byte) error {
			addr, ok, err := parseRoute(body, family, routes)
			if ok {
				addrs = append(addrs, addr)
			}
			return err
		})
		missing := errors.Is(err, unix.ENOENT) // a table is made with its first route
		if err != nil && !missing && !(family == unix.AF_INET6 && isNoIPv6(err)) {
			return nil, err
		}
	}
	return addrs, nil
}

// routeHeader is struct rtmsg (include/uapi/linux/rtnetlink.h). The table travels
// as an attribute, because the field has 8 bits.
func routeHeader(family, bits, protocol, scope, kind uint8) []byte {
	header := make([]byte, unix.SizeofRtMsg, 64)
	header[0] = family
	header[1] = bits
	header[5] = protocol
	header[6] = scope
	header[7] = kind
	return header
}

// routeRequest encodes RTM_NEWROUTE (strict: what exists is an error) or
// RTM_DELROUTE of the local full-length route in a table.
func routeRequest(kind uint16, routes ipvsutil.CaptureRoutes, addr netip.Addr) netlink.Request {
	scope := uint8(unix.RT_SCOPE_UNIVERSE) // IPv6 routes have no scope
	if addr.Is4() {
		scope = unix.RT_SCOPE_HOST
	}
	body := netlink.Attributes(routeHeader(familyOf(addr), uint8(addr.BitLen()), routes.Protocol, scope, unix.RTN_LOCAL))
	body.Bytes(unix.RTA_DST, addr.AsSlice())
	body.U32(unix.RTA_OIF, loopbackIndex)
	body.U32(unix.RTA_TABLE, routes.Table)
	r := netlink.Request{Type: kind, Body: body}
	if kind == unix.RTM_NEWROUTE {
		r.Flags = unix.NLM_F_CREATE | unix.NLM_F_EXCL
	}
	return r
}

// routeDump encodes the request to list our routes of one family.
func routeDump(family uint8, routes ipvsutil.CaptureRoutes) netlink.Request {
	body := netlink.Attributes(routeHeader(family, 0, routes.Protocol, 0, unix.RTN_LOCAL))
	body.U32(unix.RTA_TABLE, routes.Table)
	return netlink.Request{Type: unix.RTM_GETROUTE, Body: body}
}

// parseRoute decodes one RTM_NEWROUTE of a listing. It is not ok when it is of
// another family, table, protocol or kind, or no full-length route.
func parseRoute(body []byte, family uint8, routes ipvsutil.CaptureRoutes) (netip.Addr, bool, error) {
	if len(body) < unix.SizeofRtMsg {
		return netip.Addr{}, false, fmt.Errorf("route message of %d bytes: %w", len(body), netlink.ErrTruncated)
	}
	cloned := binary.NativeEndian.Uint32(body[8:])&unix.RTM_F_CLONED != 0
	if body[0] != family || body[5] != routes.Protocol || body[7] != unix.RTN_LOCAL || cloned {
		return netip.Addr{}, false, nil
	}
	table := uint32(body[4])
	var dst netip.Addr
	for attr, err := range netlink.Parse(body[unix.SizeofRtMsg:]) {
		if err == nil && attr.Type == unix.RTA_TABLE {
			table, err = attr.U32()
		}
		if err != nil {
			return netip.Addr{}, false, fmt.Errorf("route message: %w", err)
		}
		if attr.Type == unix.RTA_DST {
			dst, _ = netip.AddrFromSlice(attr.Data)
		}
	}
	ok := table == routes.Table && int(body[1]) == dst.BitLen() && ipvsutil.CheckAddress(dst) == nil
	return dst, ok, nil
}
