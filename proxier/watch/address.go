package watch

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	netutils "k8s.io/utils/net"
)

// parseAddr reads an address as the API server does: leading zeros are decimal and
// an IPv4-mapped IPv6 address is the IPv4 address. A zone is refused.
func parseAddr(s string) (netip.Addr, error) {
	addr, err := netip.ParseAddr(s)
	if err != nil {
		// Stored objects may hold leading zeros, which Go refuses since 1.17.
		sloppy, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
		if !ok {
			return netip.Addr{}, errors.New("is not an IP address")
		}
		addr = sloppy
	}
	if addr.Zone() != "" {
		return netip.Addr{}, errors.New("has a zone, which no Service address has")
	}
	return addr.Unmap(), nil
}

// parseUsable is parseAddr for an address that packets can be sent to from
// another network namespace.
func parseUsable(s string) (netip.Addr, error) {
	addr, err := parseAddr(s)
	if err != nil {
		return netip.Addr{}, err
	}
	switch {
	case addr.IsUnspecified():
		err = errors.New("is the unspecified address")
	case addr.IsLoopback():
		err = errors.New("is a loopback address")
	case addr.IsMulticast():
		err = errors.New("is a multicast address")
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		err = errors.New("is the broadcast address")
	}
	return addr, err
}

// parsePrefix reads an address range; blanks around it and host bits are accepted
// (core/v1 allows both in loadBalancerSourceRanges).
func parsePrefix(s string) (netip.Prefix, error) {
	s = strings.TrimSpace(s)
	prefix, err := netip.ParsePrefix(s)
	if err != nil {
		_, sloppy, sloppyErr := netutils.ParseCIDRSloppy(s)
		if sloppyErr != nil {
			return netip.Prefix{}, errors.New("is not an address range such as 10.0.0.0/8")
		}
		addr, _ := netip.AddrFromSlice(sloppy.IP)
		bits, _ := sloppy.Mask.Size()
		prefix = netip.PrefixFrom(addr, bits)
	}
	if prefix.Addr().Is4In6() {
		return netip.Prefix{}, errors.New("is an IPv4-mapped IPv6 range; write it as IPv4")
	}
	return prefix.Masked(), nil
}

// parsePort checks a port number of the API, which is an int32.
func parsePort(n int32) (uint16, error) {
	if n < 1 || n > 65535 {
		return 0, fmt.Errorf("%d is not in 1-65535", n)
	}
	return uint16(n), nil
}

// familyName is "IPv4" or "IPv6", as the API spells it.
func familyName(addr netip.Addr) string {
	if addr.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
