// Package ipvsutil holds the values of IPVS and of the addresses that are bound
// or captured for it. It is pure: package ipvsutil/kernel carries the values to
// the Linux kernel, package ipvsutil/fake is a double as strict as the kernel.
//
// Every value is comparable with ==, and the desired and the observed state are
// the same type: whatever the kernel can have wrong is a field, counters are not.
package ipvsutil

import (
	"fmt"
	"net/netip"
	"time"
)

// Protocol is an IANA protocol number. Zero stands for "no protocol", which only
// the key of a firewall-mark server has.
type Protocol uint8

// The protocols that a Service can have (core/v1 Protocol) and IPVS can balance.
const (
	TCP  Protocol = 6
	UDP  Protocol = 17
	SCTP Protocol = 132
)

// String returns the lower-case name as ipset prints it.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "tcp"
	case UDP:
		return "udp"
	case SCTP:
		return "sctp"
	case 0:
		return "none"
	}
	return fmt.Sprintf("proto%d", uint8(p))
}

// Key names one virtual server. It is either an address server (Addr and Protocol
// set, Mark zero) or a firewall-mark server (Mark set, Protocol zero, and Addr the
// unspecified address of the family with port zero).
type Key struct {
	Addr     netip.AddrPort
	Protocol Protocol
	Mark     uint32
}

// MarkKey returns the key of the firewall-mark server for mark in the family of
// IPv6 or IPv4. The same mark may exist in both families.
func MarkKey(mark uint32, ipv6 bool) Key {
	addr := netip.IPv4Unspecified()
	if ipv6 {
		addr = netip.IPv6Unspecified()
	}
	return Key{Addr: netip.AddrPortFrom(addr, 0), Mark: mark}
}

// IsIPv6 reports the family of the server.
func (k Key) IsIPv6() bool { return k.Addr.Addr().Is6() }

// String returns "10.96.0.10:53/udp", or "fwm 131073 (IPv4)" for a mark server.
func (k Key) String() string {
	if k.Mark == 0 {
		return k.Addr.String() + "/" + k.Protocol.String()
	}
	if k.IsIPv6() {
		return fmt.Sprintf("fwm %d (IPv6)", k.Mark)
	}
	return fmt.Sprintf("fwm %d (IPv4)", k.Mark)
}

// Compare orders keys: address servers by address, port and protocol, then mark servers.
func (k Key) Compare(o Key) int {
	if k.Mark != o.Mark {
		if k.Mark < o.Mark {
			return -1
		}
		return 1
	}
	if c := k.Addr.Compare(o.Addr); c != 0 {
		return c
	}
	return int(k.Protocol) - int(o.Protocol)
}

// Flags are the options of a virtual server that the scheduler reads
// (include/uapi/linux/ip_vs.h). The bits that the kernel owns (persistent 0x1,
// hashed 0x2) never appear here: Persistence says the first, the second is noise.
type Flags uint32

// Scheduler options. What they mean depends on the scheduler: for sh and mh the
// first is "fallback to another real server", the second "hash the source port too".
const (
	FlagOnePacket Flags = 0x4
	FlagSched1    Flags = 0x8
	FlagSched2    Flags = 0x10
	FlagSched3    Flags = 0x20
	// SchedulerFlags is every bit that a user may choose.
	SchedulerFlags = FlagOnePacket | FlagSched1 | FlagSched2 | FlagSched3
)

// VirtualServer is one IPVS virtual server as it should be, or as it is.
type VirtualServer struct {
	Key       Key
	Scheduler string
	Flags     Flags
	// Persistence is the time in seconds for which a client is sent to the same
	// real server; zero means none. The netmask is always the full address.
	Persistence uint32
	// Foreign is seen on observed servers only: somebody gave it what this project
	// never does (a netmask or an engine of persistence, persistence of zero
	// seconds). An update removes that; Do ignores the field.
	Foreign bool
}

// String returns the line of the dump language, such as "vs 10.96.0.1:443/tcp rr".
func (v VirtualServer) String() string {
	s := "vs " + v.Key.String() + " " + v.Scheduler
	if v.Persistence != 0 {
		s += fmt.Sprintf(" persistent %d", v.Persistence)
	}
	if v.Flags != 0 {
		s += fmt.Sprintf(" flags %#x", uint32(v.Flags))
	}
	if v.Foreign {
		s += " foreign"
	}
	return s
}

// RealServer is one destination of a virtual server. Forwarding is always
// masquerade (NAT), so it is no field. Port zero, allowed under a mark server
// only, keeps the port that the client used.
type RealServer struct {
	Addr   netip.AddrPort
	Weight uint32
	// Drained is when one of weight zero began to drain, in Unix seconds; zero where
	// nobody wrote that down. See Thresholds.
	Drained uint32
	// Foreign is seen on observed servers only: somebody gave it what this project
	// never does (another forwarding method, connection thresholds). An update
	// removes that; Do ignores the field.
	Foreign bool
}

// leastDrained is of 1987, and more connections than any kernel can hold.
const leastDrained = 1 << 29

// DrainedAt is the value of Drained for a time; zero, which is none, for one that a clock
// shows that was never set.
func DrainedAt(t time.Time) uint32 {
	if s := t.Unix(); s >= leastDrained && s < 1<<32 {
		return uint32(s)
	}
	return 0
}

// Thresholds reads the connection thresholds of an observed real server into it. The
// upper one is no threshold but Drained, where it is beyond all numbers of connections
// and no new one comes in any case: so the kernel keeps the begin of a drain exactly as
// long as the drain.
func (r *RealServer) Thresholds(upper, lower uint32) {
	switch {
	case upper == 0 && lower == 0:
	case lower == 0 && upper >= leastDrained && r.Weight == 0:
		r.Drained = upper
	default:
		r.Foreign = true
	}
}

// String returns "10.244.1.2:8080 w1".
func (r RealServer) String() string {
	if r.Foreign {
		return fmt.Sprintf("%s w%d foreign", r.Addr, r.Weight)
	}
	return fmt.Sprintf("%s w%d", r.Addr, r.Weight)
}

// Connections are the counters of a real server that draining looks at. They are
// read apart from the value and are never compared.
type Connections struct {
	Active, Inactive, Persistent uint32
}

// Idle reports that nothing uses the real server any more.
func (c Connections) Idle() bool { return c == Connections{} }

// RealServerState is a real server as observed, with its counters.
type RealServerState struct {
	RealServer
	Connections Connections
}
