// Package explain judges a node for its operator. It compares what is desired with
// what somebody read from the kernel, says what each difference means for traffic, and
// follows a packet through the frontends of a Service. It is pure: what was read, and
// what could not be, comes in as values.
package explain

import (
	"net/netip"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// Part is one part of the kernel that can be readable or not.
type Part string

// The parts.
const (
	Servers  Part = "virtual servers"
	Sets     Part = "sets"
	Bound    Part = "bound addresses"
	Captured Part = "captured addresses"
	Rules    Part = "rules"
	Settings Part = "settings"
)

// Parts are all parts, in the order in which they are judged.
func Parts() []Part { return []Part{Bound, Captured, Servers, Sets, Rules, Settings} }

// Server is a virtual server as observed, with its real servers.
type Server struct {
	ipvsutil.VirtualServer
	RealServers []ipvsutil.RealServerState
}

// Setting is a kernel setting that is not as it should be.
type Setting struct {
	Name, Want string
	Have       string // empty: it could not be read
	Breaks     string
	// Advice: traffic is served all the same.
	Advice bool
}

// Observed is what the kernel has. The zero value is an empty kernel.
type Observed struct {
	// Device tells whether kube-ipvs0 is there.
	Device bool
	// Bound and Captured are those of this proxy.
	Bound, Captured map[netip.Addr]bool
	// TalkedFrom are the addresses from which processes of the node have TCP connections
	// or connected UDP sockets; Leaving those that processes take for nothing new.
	TalkedFrom, Leaving map[netip.Addr]bool
	Servers             map[ipvsutil.Key]Server
	// Members are the entries of our sets with their marks; a set that is missing has
	// no key.
	Members map[string]map[ipsetutil.Entry]uint32
	// Mismatched are sets of our names with other parameters: name to what they are.
	Mismatched map[string]string
	// PolicyRules says for IPv4 and IPv6 whether marked packets are led to the capture
	// table. IPv6 counts only where the host has it.
	PolicyRules [2]bool
	// RuleProblems are what the static rules have wrong, a line each.
	RuleProblems []string
	// Settings are those that are wrong.
	Settings []Setting
	// Owns tells whether a virtual server that is there is ours.
	Owns func(ipvsutil.Key) bool
	// IPv6 tells whether the host has IPv6: without it its sets and rules do not count.
	IPv6 bool
	// Unknown are the parts that could not be read, and why. They are not judged.
	Unknown map[Part]error
}

// Known reports whether a part was read.
func (o Observed) Known(p Part) bool { return o.Unknown[p] == nil }

// member tells whether an entry is in its set, and with which mark.
func (o Observed) member(m ipsetutil.Member) (mark uint32, ok bool) {
	mark, ok = o.Members[m.Set][m.Entry]
	return mark, ok
}
