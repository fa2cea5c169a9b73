package probe

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// socket is a non-blocking socket whose waiting is done by Go's poller.
type socket struct {
	*os.File
	raw syscall.RawConn
}

// socketOptions are set before the socket is bound; zero values are left alone.
type socketOptions struct {
	bind   netip.AddrPort // zero: not bound; port zero: the kernel's choice
	device string         // SO_BINDTODEVICE
	mark   uint32         // SO_MARK
}

// open makes a socket in the namespace of the probe for the family of addr.
func (p *Probe) open(proto Protocol, addr netip.Addr, o socketOptions) (fd int, err error) {
	family, kind := unix.AF_INET, unix.SOCK_STREAM
	if addr.Is6() {
		family = unix.AF_INET6
	}
	if proto == UDP {
		kind = unix.SOCK_DGRAM
	}
	p.do(func() {
		fd, err = unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, int(proto))
	})
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	if err := o.apply(fd, family); err != nil {
		return -1, errors.Join(err, unix.Close(fd))
	}
	return fd, nil
}

func (o socketOptions) apply(fd, family int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return os.NewSyscallError("reuse address", err)
	}
	if family == unix.AF_INET6 {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return os.NewSyscallError("v6only", err)
		}
	}
	if o.device != "" {
		if err := unix.BindToDevice(fd, o.device); err != nil {
			return fmt.Errorf("bind to device %s: %w", o.device, err)
		}
	}
	if o.mark != 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, int(o.mark)); err != nil {
			return os.NewSyscallError("mark", err)
		}
	}
	if o.bind.IsValid() {
		if err := unix.Bind(fd, sockaddr(o.bind)); err != nil {
			return fmt.Errorf("bind %v: %w", o.bind, err)
		}
	}
	return nil
}

// wrap hands fd to Go's poller. It comes after connect or listen: a stream
// socket that is neither reports a hang-up at once.
func wrap(fd int, name string) (socket, error) {
	f := os.NewFile(uintptr(fd), name)
	raw, err := f.SyscallConn()
	if err != nil {
		return socket{}, errors.Join(err, f.Close())
	}
	return socket{f, raw}, nil
}

// local is the address the socket has now.
func (s socket) local() (netip.AddrPort, error) {
	var sa unix.Sockaddr
	var err error
	if cerr := s.raw.Control(func(fd uintptr) { sa, err = unix.Getsockname(int(fd)) }); cerr != nil {
		return netip.AddrPort{}, cerr
	}
	return addrPort(sa), err
}

// connected waits until a connect that was begun has come to its end.
func (s socket) connected() error {
	var result error
	err := s.raw.Write(func(fd uintptr) bool {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		switch {
		case err != nil:
			result = err
			return true
		case code != 0:
			result = unix.Errno(code)
			return true
		}
		// The poller may wake us early: only a peer's name is proof.
		_, err = unix.Getpeername(int(fd))
		return err == nil
	})
	return errors.Join(err, result)
}

// accept waits for the next connection of a listening socket.
func (s socket) accept() (fd int, source netip.AddrPort, err error) {
	var sa unix.Sockaddr
	werr := s.raw.Read(func(lfd uintptr) bool {
		fd, sa, err = unix.Accept4(int(lfd), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		return !errors.Is(err, unix.EAGAIN)
	})
	if werr != nil {
		return -1, netip.AddrPort{}, werr
	}
	return fd, addrPort(sa), err
}

// receive waits for a datagram.
func (s socket) receive(buf []byte) (n int, from unix.Sockaddr, err error) {
	werr := s.raw.Read(func(fd uintptr) bool {
		n, from, err = unix.Recvfrom(int(fd), buf, 0)
		return !errors.Is(err, unix.EAGAIN)
	})
	return n, from, errors.Join(werr, err)
}

// sendTo sends a datagram.
func (s socket) sendTo(b []byte, to unix.Sockaddr) error {
	var err error
	cerr := s.raw.Control(func(fd uintptr) { err = unix.Sendto(int(fd), b, 0, to) })
	return errors.Join(cerr, err)
}

func sockaddr(ap netip.AddrPort) unix.Sockaddr {
	if ap.Addr().Is4() {
		return &unix.SockaddrInet4{Addr: ap.Addr().As4(), Port: int(ap.Port())}
	}
	return &unix.SockaddrInet6{Addr: ap.Addr().As16(), Port: int(ap.Port())}
}

// addrPort is zero for a family that is not IP.
func addrPort(sa unix.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(sa.Addr), uint16(sa.Port))
	}
	return netip.AddrPort{}
}
