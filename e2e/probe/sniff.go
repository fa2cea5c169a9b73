package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// Packet is what counts of an arriving packet. Ports are zero where the protocol
// is none of ours.
type Packet struct {
	Protocol    Protocol
	Source      netip.Addr
	Destination netip.AddrPort
}

// Sniffer counts the packets that arrive in a namespace, also those that no
// socket takes. What the namespace sends is not counted.
type Sniffer struct {
	s    socket
	done chan struct{}

	mu   sync.Mutex
	seen map[Packet]int
}

// Sniff begins to count.
func (p *Probe) Sniff() (*Sniffer, error) {
	var fd int
	var err error
	p.do(func() {
		fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(bigEndian(unix.ETH_P_ALL)))
	})
	if err != nil {
		return nil, fmt.Errorf("sniff in %s: %w", p.name, err)
	}
	s, err := wrap(fd, "sniffer")
	if err != nil {
		return nil, err
	}
	n := &Sniffer{s: s, done: make(chan struct{}), seen: map[Packet]int{}}
	go n.run()
	return n, nil
}

// Close ends the counting.
func (n *Sniffer) Close() error {
	err := n.s.Close()
	<-n.done
	return err
}

// Count is the number of packets so far that match.
func (n *Sniffer) Count(match func(Packet) bool) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	total := 0
	for p, c := range n.seen {
		if match(p) {
			total += c
		}
	}
	return total
}

// From counts the packets of one source address.
func (n *Sniffer) From(source netip.Addr) int {
	return n.Count(func(p Packet) bool { return p.Source == source })
}

// To counts the packets to one port of one protocol, from whomever.
func (n *Sniffer) To(proto Protocol, port uint16) int {
	return n.Count(func(p Packet) bool { return p.Protocol == proto && p.Destination.Port() == port })
}

func (n *Sniffer) run() {
	defer close(n.done)
	buf := make([]byte, 128) // headers are enough
	for {
		got, from, err := n.s.receive(buf)
		if errors.Is(err, unix.ENETDOWN) {
			continue // a device went down; the others are still heard
		}
		if err != nil {
			return
		}
		link, ok := from.(*unix.SockaddrLinklayer)
		if !ok || link.Pkttype == unix.PACKET_OUTGOING {
			continue
		}
		if p, ok := parsePacket(bigEndian(link.Protocol), buf[:got]); ok {
			n.mu.Lock()
			n.seen[p]++
			n.mu.Unlock()
		}
	}
}

// parsePacket reads the header of an IP packet; false for all others. IPv6
// extension headers are not followed: nobody here sends any.
func parsePacket(etherType uint16, b []byte) (Packet, bool) {
	var p Packet
	var rest []byte
	var destination netip.Addr
	switch {
	case etherType == unix.ETH_P_IP && len(b) >= 20:
		p.Protocol = Protocol(b[9])
		p.Source = netip.AddrFrom4([4]byte(b[12:16]))
		destination = netip.AddrFrom4([4]byte(b[16:20]))
		rest = b[min(int(b[0]&0xf)*4, len(b)):]
	case etherType == unix.ETH_P_IPV6 && len(b) >= 40:
		p.Protocol = Protocol(b[6])
		p.Source = netip.AddrFrom16([16]byte(b[8:24]))
		destination = netip.AddrFrom16([16]byte(b[24:40]))
		rest = b[40:]
	default:
		return Packet{}, false
	}
	var port uint16
	switch p.Protocol {
	case TCP, UDP, SCTP:
		if len(rest) >= 4 {
			port = binary.BigEndian.Uint16(rest[2:4])
		}
	}
	p.Destination = netip.AddrPortFrom(destination, port)
	return p, true
}

// bigEndian swaps a host's number into the order of the network, or back.
func bigEndian(v uint16) uint16 {
	var b [2]byte
	binary.NativeEndian.PutUint16(b[:], v)
	return binary.BigEndian.Uint16(b[:])
}
