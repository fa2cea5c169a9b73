// Package netlink is one raw netlink socket and the attribute codec that all
// codecs of this project share (IPVS over generic netlink, ipsets, rtnetlink).
// It sends requests in batches and takes an acknowledgement for the last one of a
// batch only: the kernel works a batch off in order inside the send call, and
// answers every request that failed with that request's sequence number.
package netlink

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// inSize holds the largest reply: the echo of a request of maxMessage bytes.
	inSize = 128 << 10
	// mostPart bounds a part of a listing as the kernel makes them when it is not told of
	// more room; that is less than a page, too.
	mostPart = 8 << 10
	// receiveBuffer is asked for on the kernel's side. A batch in which all fail
	// needs about 100 KiB (each reply is charged 768 bytes), more with long echoes.
	receiveBuffer = 1 << 20
	// defaultWait bounds each wait for the kernel when the context has no deadline.
	defaultWait = 10 * time.Second
	// waitSlice is how often a wait looks whether the context was cancelled.
	waitSlice = 100 * time.Millisecond
)

// Socket is a netlink socket that is connected to the kernel, so that no other
// process can send to it. It may be used by several goroutines; one call at a time
// has the socket. Buffers are kept and used again.
type Socket struct {
	mu       sync.Mutex
	fd       int // -1 after Close
	sequence uint32
	out, in  []byte
	poll     [1]unix.PollFd
	patience time.Duration // defaultWait, less in tests
}

// Open opens a socket of the given protocol (unix.NETLINK_GENERIC, NETLINK_ROUTE,
// NETLINK_NETFILTER) in the network namespace of the calling thread, and stays in
// that namespace whatever thread uses it later. Error replies carry an echo of the
// request (NETLINK_CAP_ACK stays off).
func Open(protocol int) (*Socket, error) { return open(protocol, inSize) }

// OpenSmall is Open for a socket that is used for short listings alone. The kernel clears
// as much memory for each part of one as the longest part that was ever read with the
// socket may have had, which takes it longer than to list a few things.
func OpenSmall(protocol int) (*Socket, error) { return open(protocol, min(os.Getpagesize(), mostPart)) }

func open(protocol, size int) (*Socket, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, protocol)
	if err != nil {
		return nil, fmt.Errorf("open netlink socket of protocol %d: %w", protocol, err)
	}
	if err := unix.Connect(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("connect netlink socket of protocol %d: %w", protocol, err)
	}
	// Without the capability the default buffer has to do; batches fit into it.
	if unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, receiveBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer)
	}
	return newSocket(fd, size), nil
}

// newSocket takes over fd, a non-blocking datagram socket, to read so much at once.
func newSocket(fd, size int) *Socket {
	return &Socket{
		fd:       fd,
		in:       make([]byte, size),
		out:      make([]byte, 0, maxBatchBytes),
		poll:     [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}},
		patience: defaultWait,
	}
}

// Close closes the socket, after the call that is under way. Later calls fail with
// os.ErrClosed; closing twice is no error.
func (s *Socket) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fd < 0 {
		return nil
	}
	err := unix.Close(s.fd)
	s.fd = -1
	return err
}

// ready tells whether a request may be sent at all.
func (s *Socket) ready(ctx context.Context) error {
	if s.fd < 0 {
		return os.ErrClosed
	}
	return ctx.Err()
}

// send writes the messages in s.out as one datagram. An error means that the
// kernel has seen none of them.
func (s *Socket) send() error {
	for {
		_, err := unix.Write(s.fd, s.out)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// deadline is the end of a wait that begins now.
func (s *Socket) deadline(ctx context.Context) time.Time {
	if d, ok := ctx.Deadline(); ok {
		return d
	}
	return time.Now().Add(s.patience)
}

// receive reads one datagram into s.in and returns its length. It fails with
// unix.ENOBUFS when the kernel dropped replies.
func (s *Socket) receive(ctx context.Context, until time.Time) (int, error) {
	for {
		n, err := unix.Read(s.fd, s.in)
		switch {
		case err == nil:
			return n, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN):
			if err := s.wait(ctx, until); err != nil {
				return 0, err
			}
		default:
			return 0, err
		}
	}
}

// wait sleeps until the socket is readable.
func (s *Socket) wait(ctx context.Context, until time.Time) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		left := time.Until(until)
		if left <= 0 {
			return os.ErrDeadlineExceeded
		}
		n, err := unix.Poll(s.poll[:], int(min(left, waitSlice)/time.Millisecond)+1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n > 0 {
			return nil
		}
	}
}

// drain throws away what is still queued after a loss, so that the next call
// starts on a quiet socket. A dump that was left half read ends here as well: the
// kernel makes its parts inside the read call. What arrives even later has a stale
// sequence number and is ignored.
func (s *Socket) drain() {
	for {
		_, err := unix.Read(s.fd, s.in)
		if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.ENOBUFS) {
			return
		}
	}
}
