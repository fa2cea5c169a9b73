package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
)

// This file prints what ipvsadm -Ln prints, of version 1.31. Persistence engines are
// not shown: nothing here uses them.

// ipvsadmHeader is the first line, which the kernel has ready.
func ipvsadmHeader() (string, error) {
	f, err := os.Open("/proc/thread-self/net/ip_vs")
	if err != nil {
		return "", fmt.Errorf("read the IPVS version: %w (needs root)", err)
	}
	defer func() { _ = f.Close() }()
	line, err := bufio.NewReader(f).ReadString('\n')
	return strings.TrimSpace(line), err
}

func printIPVSAdm(w io.Writer, header string, list []seen) {
	fmt.Fprintln(w, header)
	fmt.Fprintln(w, "Prot LocalAddress:Port Scheduler Flags")
	fmt.Fprintln(w, "  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn")
	for _, s := range mergeSorted(list, compareSeen) {
		fmt.Fprintln(w, ipvsadmServer(s.service))
		ipv6 := s.service.AddressFamily == unix.AF_INET6
		reals := mergeSorted(s.reals, func(a, b *ipvs.Destination) int {
			return compareAt(addrOf(a.Address, ipv6), addrOf(b.Address, ipv6), a.Port, b.Port)
		})
		for _, d := range reals {
			at := netip.AddrPortFrom(addrOf(d.Address, ipv6), d.Port)
			fmt.Fprintf(w, "  -> %-28s %-7s %-6d %-10d %-10d\n", at, forwardName(d.ConnectionFlags), d.Weight, d.ActiveConnections, d.InactiveConnections)
		}
	}
}

func ipvsadmServer(s *ipvs.Service) string {
	name := fmt.Sprintf("%-4s %s", strings.ToUpper(ipvsutil.Protocol(s.Protocol).String()), keyOf(s).Addr)
	if s.FWMark != 0 {
		name = fmt.Sprintf("FWM  %d", int32(s.FWMark)) // it is printed with a sign
		if s.AddressFamily == unix.AF_INET6 {
			name += " IPv6"
		}
	}
	line := name + " " + s.SchedName + schedulerFlags(s)
	if s.Flags&bitPersistent != 0 {
		line += fmt.Sprintf(" persistent %d", s.Timeout) + mask(s)
	}
	if ipvsutil.Flags(s.Flags)&ipvsutil.FlagOnePacket != 0 {
		line += " ops"
	}
	return line
}

// schedulerFlags names the scheduler's options; for sh and mh two have names of their own.
func schedulerFlags(s *ipvs.Service) string {
	named := s.SchedName == "sh" || s.SchedName == "mh"
	var flags []string
	for _, f := range []struct {
		bit         ipvsutil.Flags
		plain, hash string
	}{
		{ipvsutil.FlagSched1, "flag-1", "fallback"},
		{ipvsutil.FlagSched2, "flag-2", "port"},
		{ipvsutil.FlagSched3, "flag-3", ""},
	} {
		switch {
		case ipvsutil.Flags(s.Flags)&f.bit == 0:
		case named && f.hash != "":
			flags = append(flags, s.SchedName+"-"+f.hash)
		default:
			flags = append(flags, f.plain)
		}
	}
	if flags == nil {
		return ""
	}
	return " (" + strings.Join(flags, ",") + ")"
}

// mask is the netmask of persistence where it is not the whole address.
func mask(s *ipvs.Service) string {
	if s.AddressFamily == unix.AF_INET6 {
		if s.Netmask == wholeIPv6 {
			return ""
		}
		return fmt.Sprintf(" mask %d", s.Netmask)
	}
	if s.Netmask == wholeIPv4 {
		return ""
	}
	var octets [4]byte
	binary.NativeEndian.PutUint32(octets[:], s.Netmask)
	return " mask " + netip.AddrFrom4(octets).String()
}

func forwardName(flags uint32) string {
	switch flags & ipvs.ConnFwdMask {
	case ipvs.ConnFwdMasq:
		return "Masq"
	case ipvs.ConnFwdLocalNode:
		return "Local"
	case ipvs.ConnFwdTunnel:
		return "Tunnel"
	case ipvs.ConnFwdDirectRoute:
		return "Route"
	}
	return "(null)"
}

// compareSeen orders as ipvsadm does: by mark, family, protocol, address and port. It
// takes differences of 32-bit numbers as signed ones: 203.0.113.7 comes before
// 10.96.0.1.
func compareSeen(a, b seen) int {
	s, o := a.service, b.service
	for _, difference := range []int32{
		int32(s.FWMark - o.FWMark), int32(s.AddressFamily) - int32(o.AddressFamily), int32(s.Protocol) - int32(o.Protocol),
	} {
		if difference != 0 {
			return int(difference)
		}
	}
	return compareAt(keyOf(s).Addr.Addr(), keyOf(o).Addr.Addr(), s.Port, o.Port)
}

func compareAt(a, b netip.Addr, port, other uint16) int {
	x, y := a.AsSlice(), b.AsSlice()
	for i := 0; i+4 <= min(len(x), len(y)); i += 4 {
		if difference := int32(binary.BigEndian.Uint32(x[i:]) - binary.BigEndian.Uint32(y[i:])); difference != 0 {
			return int(difference)
		}
	}
	return int(port) - int(other)
}

// mergeSorted sorts as the C library's qsort does, halves first. That order is no
// proper one (of three addresses each may come before the next), so the way matters.
func mergeSorted[T any](list []T, compare func(a, b T) int) []T {
	if len(list) < 2 {
		return list
	}
	half := len(list) / 2
	first, second := mergeSorted(slices.Clone(list[:half]), compare), mergeSorted(slices.Clone(list[half:]), compare)
	merged := make([]T, 0, len(list))
	for len(first) > 0 && len(second) > 0 {
		if compare(first[0], second[0]) <= 0 {
			merged, first = append(merged, first[0]), first[1:]
		} else {
			merged, second = append(merged, second[0]), second[1:]
		}
	}
	return append(append(merged, first...), second...)
}
