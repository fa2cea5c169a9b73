package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// Segment is a TCP segment without data that no socket sends.
type Segment struct {
	From, To netip.AddrPort
	Seq, Ack uint32
}

// Forge sends a segment from the namespace.
func (p *Probe) Forge(s Segment) error {
	family := unix.AF_INET
	if s.To.Addr().Is6() {
		family = unix.AF_INET6
	}
	var fd int
	var err error
	p.do(func() { fd, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW) })
	if err != nil {
		return fmt.Errorf("forge in %s: %w", p.name, err)
	}
	err = unix.Sendto(fd, s.packet(), 0, sockaddr(netip.AddrPortFrom(s.To.Addr(), 0)))
	return errors.Join(err, unix.Close(fd))
}

const (
	tcpHeader = 20
	tcpACK    = 0x10
	tcpWindow = 0xffff
	hopLimit  = 64
)

// packet is the segment with its IP header.
func (s Segment) packet() []byte {
	tcp := make([]byte, tcpHeader)
	binary.BigEndian.PutUint16(tcp[0:], s.From.Port())
	binary.BigEndian.PutUint16(tcp[2:], s.To.Port())
	binary.BigEndian.PutUint32(tcp[4:], s.Seq)
	binary.BigEndian.PutUint32(tcp[8:], s.Ack)
	tcp[12], tcp[13] = tcpHeader/4<<4, tcpACK
	binary.BigEndian.PutUint16(tcp[14:], tcpWindow)
	addrs := append(s.From.Addr().AsSlice(), s.To.Addr().AsSlice()...)
	binary.BigEndian.PutUint16(tcp[16:], checksum(addrs, []byte{0, unix.IPPROTO_TCP, 0, tcpHeader}, tcp))
	if s.To.Addr().Is6() {
		ip := []byte{6 << 4, 0, 0, 0, 0, tcpHeader, unix.IPPROTO_TCP, hopLimit}
		return append(append(ip, addrs...), tcp...)
	}
	// The kernel fills in the identification and the checksum.
	ip := []byte{4<<4 | 5, 0, 0, 20 + tcpHeader, 0, 0, 0, 0, hopLimit, unix.IPPROTO_TCP, 0, 0}
	return append(append(ip, addrs...), tcp...)
}

// Sequences are the numbers that the client of a TCP stream sends and expects next.
func (s *Stream) Sequences() (next, expected uint32, err error) {
	control := s.s.raw.Control(func(fd uintptr) { next, expected, err = sequences(int(fd)) })
	return next, expected, errors.Join(control, err)
}

// sequences looks into a socket as a checkpoint does, and lets it go on.
func sequences(fd int) (next, expected uint32, err error) {
	const (
		receiveQueue = 1
		sendQueue    = 2
		offNoProbe   = -1 // leaves without a window probe
	)
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, 1); err != nil {
		return 0, 0, fmt.Errorf("look into a socket: %w", err)
	}
	for queue, into := range map[int]*uint32{sendQueue: &next, receiveQueue: &expected} {
		err = errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR_QUEUE, queue))
		n, e := unix.GetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_QUEUE_SEQ)
		err = errors.Join(err, e)
		*into = uint32(n)
	}
	return next, expected, errors.Join(err, unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_REPAIR, offNoProbe))
}
