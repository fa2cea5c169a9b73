// Package probe sends packets and answers them: servers that tell whom they saw,
// clients that report who answered or why nobody did, streams that are held
// open, and a counter of arriving packets.
//
// A Probe works in one network namespace. Only the creation of a socket has to
// happen on a thread of that namespace; the socket stays in it for life. So one
// process can probe from many namespaces, and no process has to be started.
package probe

import (
	"net/netip"

	"golang.org/x/sys/unix"
)

// Protocol is the IP protocol number of TCP, UDP or SCTP.
type Protocol uint8

// The protocols of Services.
const (
	TCP  Protocol = unix.IPPROTO_TCP
	UDP  Protocol = unix.IPPROTO_UDP
	SCTP Protocol = unix.IPPROTO_SCTP
)

// String returns the name as core/v1 Protocol has it.
func (p Protocol) String() string {
	switch p {
	case TCP:
		return "TCP"
	case UDP:
		return "UDP"
	case SCTP:
		return "SCTP"
	}
	return "protocol?"
}

// Probe opens sockets in one network namespace under one name.
type Probe struct {
	name string
	do   func(func())
}

// New returns a Probe whose servers answer with name. do runs a function on a
// thread of the namespace and returns when it is done; nil means the namespace
// of the caller.
func New(name string, do func(func())) *Probe {
	if do == nil {
		do = func(f func()) { f() }
	}
	return &Probe{name: name, do: do}
}

// Name is the name that the servers of the probe answer with.
func (p *Probe) Name() string { return p.name }

// Answer is what a server tells its peer, as one line of JSON.
type Answer struct {
	Who    string         `json:"who"`    // name of the server's probe
	Source netip.AddrPort `json:"source"` // the peer as the server's socket sees it
	Local  netip.AddrPort `json:"local"`  // the address at which the server was reached
}
