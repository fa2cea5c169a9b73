package probe

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Types of ICMP messages, the first byte of each.
const (
	echoRequest4, echoReply4 = 8, 0
	echoRequest6, echoReply6 = 128, 129
)

// Ping sends one echo request from the namespace and waits for its reply; nil means
// that it came from the address that was asked.
func (p *Probe) Ping(to netip.Addr, timeout time.Duration) error {
	s, err := p.rawSocket(to)
	if err != nil {
		return fmt.Errorf("ping %v: %w", to, err)
	}
	defer func() { _ = s.Close() }()
	if err := s.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	id := uint16(time.Now().UnixNano())
	if err := s.sendTo(echo(to, id), sockaddr(netip.AddrPortFrom(to, 0))); err != nil {
		return fmt.Errorf("ping %v: %w", to, err)
	}
	buf := make([]byte, 256)
	for {
		n, from, err := s.receive(buf)
		if err != nil {
			return fmt.Errorf("ping %v: %w", to, err)
		}
		if isReply(to, id, buf[:n]) && addrPort(from).Addr() == to {
			return nil
		}
	}
}

// rawSocket gets all ICMP messages of the namespace; of IPv4 with the IP header.
func (p *Probe) rawSocket(to netip.Addr) (socket, error) {
	family, proto := unix.AF_INET, unix.IPPROTO_ICMP
	if to.Is6() {
		family, proto = unix.AF_INET6, unix.IPPROTO_ICMPV6
	}
	var fd int
	var err error
	p.do(func() { fd, err = unix.Socket(family, unix.SOCK_RAW|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, proto) })
	if err != nil {
		return socket{}, err
	}
	return wrap(fd, "ping")
}

// echo is an echo request. Of IPv6 the kernel fills in the checksum.
func echo(to netip.Addr, id uint16) []byte {
	b := []byte{echoRequest4, 0, 0, 0, 0, 0, 0, 1, 'p', 'i', 'n', 'g'}
	binary.BigEndian.PutUint16(b[4:], id)
	if to.Is6() {
		b[0] = echoRequest6
		return b
	}
	binary.BigEndian.PutUint16(b[2:], checksum(b))
	return b
}

// isReply tells whether a message is the reply to echo.
func isReply(to netip.Addr, id uint16, b []byte) bool {
	kind := byte(echoReply6)
	if to.Is4() {
		kind = echoReply4
		if len(b) == 0 {
			return false
		}
		b = b[min(int(b[0]&0xf)*4, len(b)):]
	}
	return len(b) >= 8 && b[0] == kind && binary.BigEndian.Uint16(b[4:]) == id
}

// checksum is that of the Internet protocols (RFC 1071).
func checksum(parts ...[]byte) uint16 {
	var sum uint32
	for _, b := range parts {
		for ; len(b) > 1; b = b[2:] {
			sum += uint32(binary.BigEndian.Uint16(b))
		}
		if len(b) == 1 {
			sum += uint32(b[0]) << 8
		}
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}
