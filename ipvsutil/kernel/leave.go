package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// Leave implements ipvsutil.Addresses. A local route with an own address of the host as
// source takes the place of the one that the kernel made with the address: sockets get
// their source from the route, and the address stays local. In IPv4 the newest of several
// routes counts; in IPv6 none comes before the kernel's own, which goes.
func (a *Addresses) Leave(ctx context.Context, addrs []netip.Addr) []error {
	errs := make([]error, len(addrs))
	for _, ipv6 := range []bool{false, true} {
		var of []netip.Addr
		var places []int
		for i, addr := range addrs {
			if addr.Is6() != ipv6 {
				continue
			}
			if err := ipvsutil.CheckAddress(addr); err != nil {
				errs[i] = &ipvsutil.OpError{Op: "leave", Object: addr.String(), Err: err}
				continue
			}
			of, places = append(of, addr), append(places, i)
		}
		for n, err := range a.leave(ctx, of) {
			errs[places[n]] = err
		}
	}
	return anyError(errs)
}

// leave does it for addresses of one family.
func (a *Addresses) leave(ctx context.Context, addrs []netip.Addr) []error {
	if len(addrs) == 0 {
		return nil
	}
	index, err := a.deviceIndex(ctx)
	if err != nil {
		return failAll("leave", addrs, func(addr netip.Addr) error { return unbindError(addr, err) })
	}
	source, err := a.ownAddress(ctx, familyOf(addrs[0]), index)
	if err != nil {
		return failAll("leave", addrs, func(netip.Addr) error { return err })
	}
	if !source.IsValid() { // the host has nothing else to offer
		return nil
	}
	a.remember(addrs)
	errs := a.batch(ctx, "leave", addrs, func(addr netip.Addr) netlink.Request {
		return leaveRequest(a.bindRoutes(), addr, source)
	}, leaveError)
	if addrs[0].Is4() {
		return errs
	}
	return either(errs, a.batch(ctx, "leave", addrs, func(addr netip.Addr) netlink.Request {
		return kernelRoute(addr, index)
	}, leaveError))
}

// leaveError gives the kernel's answer its meaning: what is so already is no error.
func leaveError(_ netip.Addr, err error) error {
	if errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

// either gives for each place the first of two errors.
func either(first, second []error) []error {
	if first == nil {
		return second
	}
	for i, err := range second {
		if first[i] == nil {
			first[i] = err
		}
	}
	return first
}

// remember notes addresses whose routes Unbind has to delete too.
func (a *Addresses) remember(addrs []netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, addr := range addrs {
		if a.left == nil {
			a.left = map[netip.Addr]bool{}
		}
		a.left[addr] = true
	}
}

// forget returns those of the addresses that were noted and are unbound now.
func (a *Addresses) forget(addrs []netip.Addr, errs []error) []netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	var left []netip.Addr
	for i, addr := range addrs {
		if a.left[addr] && (errs == nil || errs[i] == nil) {
			delete(a.left, addr)
			left = append(left, addr)
		}
	}
	return left
}

// ownAddress is an address of the host that is no Service's: the first of global scope on
// another device. Which one matters little: what it asks of a Service is masqueraded. The
// zero value: there is none.
func (a *Addresses) ownAddress(ctx context.Context, family uint8, device int) (own netip.Addr, err error) {
	err = a.socket.Dump(ctx, addressDump(family, 0), func(body []byte) error {
		if own.IsValid() || len(body) < unix.SizeofIfAddrmsg || body[0] != family {
			return nil
		}
		const unfit = unix.IFA_F_SECONDARY | unix.IFA_F_TENTATIVE | unix.IFA_F_DEPRECATED | unix.IFA_F_DADFAILED
		index := int(binary.NativeEndian.Uint32(body[4:]))
		if index == device || index == loopbackIndex || body[2]&unfit != 0 || body[3] != unix.RT_SCOPE_UNIVERSE {
			return nil
		}
		addr, err := netlink.InterfaceAddress(body)
		own = addr
		return err
	})
	if errors.Is(err, netlink.ErrInterrupted) || family == unix.AF_INET6 && isNoIPv6(err) {
		err = nil // what came is there
	}
	return own, err
}

// leaveRequest encodes the local route with another source.
func leaveRequest(routes ipvsutil.CaptureRoutes, addr, source netip.Addr) netlink.Request {
	r := routeRequest(unix.RTM_NEWROUTE, routes, addr)
	r.Flags = unix.NLM_F_CREATE
	body := netlink.Attributes(r.Body)
	body.Bytes(unix.RTA_PREFSRC, source.AsSlice())
	r.Body = body
	return r
}

// kernelRoute encodes the deletion of the route that the kernel made with an address.
func kernelRoute(addr netip.Addr, index int) netlink.Request {
	body := netlink.Attributes(routeHeader(familyOf(addr), uint8(addr.BitLen()), unix.RTPROT_KERNEL, unix.RT_SCOPE_UNIVERSE, unix.RTN_LOCAL))
	body.Bytes(unix.RTA_DST, addr.AsSlice())
	body.U32(unix.RTA_OIF, uint32(index))
	body.U32(unix.RTA_TABLE, unix.RT_TABLE_LOCAL)
	return netlink.Request{Type: unix.RTM_DELROUTE, Body: body}
}
