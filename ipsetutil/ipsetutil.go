// Package ipsetutil holds the values of the ipsets that the static rules match
// against: the fixed list of sets, and their entries. It is pure: ipsetutil/kernel
// carries the values to the Linux kernel, ipsetutil/fake is as strict as the kernel.
package ipsetutil

import (
	"fmt"
	"net/netip"
	"strings"
)

// Type is a kernel set type.
type Type string

// The set types in use.
const (
	HashIP        Type = "hash:ip"
	HashIPPort    Type = "hash:ip,port"
	HashIPPortIP  Type = "hash:ip,port,ip"
	HashIPPortNet Type = "hash:ip,port,net"
	BitmapPort    Type = "bitmap:port"
)

// Family is the address family of a set; a bitmap:port has FamilyNone.
type Family uint8

// The families of sets.
const (
	FamilyNone Family = iota
	IPv4
	IPv6
)

// String returns ipset's own word: inet, inet6, or "" for none.
func (f Family) String() string {
	switch f {
	case IPv4:
		return "inet"
	case IPv6:
		return "inet6"
	}
	return ""
}

// Set is one ipset as it should be created. Hash sets are created with hash size
// 1024; bitmaps have the range 0-65535.
type Set struct {
	Name    string
	Type    Type
	Family  Family
	MaxElem uint32 // hash sets only
	// Marks: each entry carries a firewall mark (the skbinfo extension) that the
	// SET target copies to the packet.
	Marks bool
}

// Entry is a member's key. Which fields count depends on the set's type; the
// others are zero, so that == compares entries.
type Entry struct {
	Addr     netip.Addr
	Protocol uint8 // IANA number
	Port     uint16
	// Source is the third part: for hash:ip,port,ip a full-length prefix, for
	// hash:ip,port,net a masked prefix of length 1 or more.
	Source netip.Prefix
}

// String returns ipset's own syntax: "10.96.0.1,tcp:443,10.0.0.0/8", or "30080" for a port.
func (e Entry) String() string {
	if !e.Addr.IsValid() {
		return fmt.Sprint(e.Port)
	}
	var b strings.Builder
	b.WriteString(e.Addr.String())
	if e.Protocol != 0 {
		fmt.Fprintf(&b, ",%s:%d", protocolName(e.Protocol), e.Port)
	}
	if e.Source.IsValid() {
		b.WriteByte(',')
		if e.Source.IsSingleIP() {
			b.WriteString(e.Source.Addr().String())
		} else {
			b.WriteString(e.Source.String())
		}
	}
	return b.String()
}

func protocolName(p uint8) string {
	switch p {
	case 6:
		return "tcp"
	case 17:
		return "udp"
	case 132:
		return "sctp"
	}
	return fmt.Sprint(p)
}

// Member is an entry of a set: the key that a Service claims. The mark that some
// members carry is their value, not part of the key.
type Member struct {
	Set   string
	Entry Entry
}

// String returns "KUBE-CLUSTER-IP 10.96.0.1,tcp:443".
func (m Member) String() string { return m.Set + " " + m.Entry.String() }
