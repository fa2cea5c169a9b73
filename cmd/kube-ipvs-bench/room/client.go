package room

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// answer lets all endpoints answer on a port: with the address that was asked.
func (r *Room) answer(port uint16) error {
	var l net.Listener
	err := r.pods.do(func() (err error) {
		l, err = net.Listen("tcp4", fmt.Sprintf("0.0.0.0:%d", port))
		return err
	})
	if err != nil {
		return err
	}
	r.listeners = append(r.listeners, l)
	go func() {
		for {
			c, err := l.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil {
				say(c)
			}
		}
	}()
	return nil
}

// say writes the address at which the connection came in, four bytes, which never
// wait for the client.
func say(c net.Conn) {
	defer func() { _ = c.Close() }()
	if a, ok := c.LocalAddr().(*net.TCPAddr); ok {
		_, _ = c.Write(a.IP.To4())
	}
}

// Client asks Services, one connection after the other.
type Client struct{ in *namespace }

// Ask opens a connection to a Service and returns the endpoint that answered; the time
// is that until it was open, at most patience.
func (c *Client) Ask(to netip.AddrPort, patience time.Duration) (from netip.Addr, took time.Duration, err error) {
	err = c.in.do(func() error {
		from, took, err = ask(to, patience)
		return err
	})
	return from, took, err
}

// ask works with a blocking socket: nothing but system calls is timed.
func ask(to netip.AddrPort, patience time.Duration) (netip.Addr, time.Duration, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return netip.Addr{}, 0, err
	}
	defer func() { _ = unix.Close(fd) }()
	limit, long := unix.NsecToTimeval(patience.Nanoseconds()), unix.NsecToTimeval(time.Second.Nanoseconds())
	if err := errors.Join(unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &long),
		// The port is free again at once.
		unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})); err != nil {
		return netip.Addr{}, 0, err
	}
	began := time.Now()
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}); err != nil {
		return netip.Addr{}, 0, fmt.Errorf("connect to %v: %w", to, err)
	}
	took := time.Since(began)
	var answer [4]byte
	for n := 0; n < len(answer); {
		m, err := unix.Read(fd, answer[n:])
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && m == 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return netip.Addr{}, took, fmt.Errorf("answer of %v: %w", to, err)
		}
		n += m
	}
	return netip.AddrFrom4(answer), took, nil
}

// patience is for the handshake of a request that was lost, or refused by ICMP (which
// comes while connect still holds the socket, and is not heard): the kernels of all
// sides do it at once.
const patience = 20 * time.Millisecond

// Until asks until an endpoint that is wanted has answered, and returns when that was. want may be the zero address for any. Pauses are a part of
// the time that has gone, so that asking takes little of it.
func (c *Client) Until(ctx context.Context, to netip.AddrPort, want netip.Addr) (time.Time, error) {
	began := time.Now()
	for {
		from, _, err := c.Ask(to, patience)
		if err == nil && (!want.IsValid() || from == want) {
			return time.Now(), nil
		}
		select {
		case <-ctx.Done():
			return time.Time{}, errors.Join(fmt.Errorf("%v is not served by %v: last answer from %v", to, want, from), err)
		case <-time.After(Pause(time.Since(began))):
		}
	}
}

// Pause is how long to wait between two looks at something that has taken so long: a
// look must not cost the proxy much, and must not make the time much longer.
func Pause(elapsed time.Duration) time.Duration {
	return min(max(elapsed/20, 500*time.Microsecond), 250*time.Millisecond)
}
