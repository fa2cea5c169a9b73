package netlink

import (
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// openRoute opens a socket to the routing family, which answers without privilege.
func openRoute(t testing.TB) *Socket {
	t.Helper()
	s, err := Open(unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// getLink asks for the link of an index: lo has 1 in every namespace.
func getLink(index int32) Request {
	body := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(body[4:], uint32(index))
	return Request{Type: unix.RTM_GETLINK, Body: body}
}

// failingRequests ask for a link that is not there, so each gives an error.
func failingRequests(n int) []Request {
	requests := make([]Request, n)
	for i := range requests {
		requests[i] = getLink(1 << 30)
	}
	return requests
}

func TestExecuteAllSucceed(t *testing.T) {
	s := openRoute(t)
	if errs := s.Execute(t.Context(), []Request{getLink(1), getLink(1)}); errs != nil {
		t.Fatalf("errors %v", errs)
	}
	if errs := s.Execute(t.Context(), nil); errs != nil {
		t.Fatalf("errors of nothing: %v", errs)
	}
}

// The one that fails is named, whether it is inside a batch, the last of one or
// the first of the next, and the others are done.
func TestExecuteNamesTheFailingRequest(t *testing.T) {
	s := openRoute(t)
	for _, bad := range []int{0, 5, 127, 128, 299} {
		requests := make([]Request, 300)
		for i := range requests {
			requests[i] = getLink(1)
		}
		requests[bad] = getLink(1 << 30)
		errs := s.Execute(t.Context(), requests)
		if len(errs) != len(requests) {
			t.Fatalf("bad %d: %d errors for %d requests", bad, len(errs), len(requests))
		}
		for i, err := range errs {
			if (err != nil) != (i == bad) {
				t.Errorf("bad %d: error of %d is %v", bad, i, err)
			}
		}
		var refused *Error
		if !errors.As(errs[bad], &refused) || !errors.Is(errs[bad], unix.ENODEV) {
			t.Fatalf("bad %d: %v is not ENODEV", bad, errs[bad])
		}
		if got := string(refused.Echo); got != string(requests[bad].Body) {
			t.Errorf("bad %d: echo %x, want %x", bad, got, requests[bad].Body)
		}
	}
}

// A batch in which all fail fits into the receive buffer.
func TestExecuteAllFail(t *testing.T) {
	s := openRoute(t)
	requests := failingRequests(3 * maxBatch)
	for i, err := range s.Execute(t.Context(), requests) {
		if !errors.Is(err, unix.ENODEV) {
			t.Fatalf("error of %d is %v", i, err)
		}
	}
}

// When the kernel drops replies, every request of the batch without an answer is
// lost, none silently good, and the socket works afterwards.
func TestExecuteOverflow(t *testing.T) {
	s := openRoute(t)
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 0); err != nil {
		t.Fatal(err)
	}
	errs := s.Execute(t.Context(), failingRequests(maxBatch))
	if errs == nil {
		t.Fatal("no errors")
	}
	refused, unknown := 0, 0
	for i, err := range errs {
		switch {
		case errors.Is(err, unix.ENODEV):
			refused++
		case errors.Is(err, ErrLost) && errors.Is(err, unix.ENOBUFS):
			unknown++
		default:
			t.Errorf("error of %d is %v", i, err)
		}
	}
	if unknown == 0 {
		t.Errorf("nothing lost, %d refused", refused)
	}
	if err := unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer); err != nil {
		t.Fatal(err)
	}
	if errs := s.Execute(t.Context(), []Request{getLink(1)}); errs != nil {
		t.Fatalf("after the loss: %v", errs)
	}
}

func TestExecuteCancelledAndClosed(t *testing.T) {
	s := openRoute(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	errs := s.Execute(ctx, []Request{getLink(1), getLink(1)})
	for i, err := range errs {
		if !errors.Is(err, context.Canceled) || errors.Is(err, ErrLost) {
			t.Errorf("error of %d is %v", i, err)
		}
	}
	if len(errs) != 2 {
		t.Errorf("%d errors", len(errs))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if errs := s.Execute(t.Context(), []Request{getLink(1)}); len(errs) != 1 || !errors.Is(errs[0], os.ErrClosed) {
		t.Errorf("closed: %v", errs)
	}
	if err := s.Dump(t.Context(), getLink(0), nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

func TestExecuteTooLong(t *testing.T) {
	s := openRoute(t)
	long := getLink(1)
	long.Body = append(long.Body, make([]byte, maxMessage)...)
	errs := s.Execute(t.Context(), []Request{getLink(1), long, getLink(1 << 30)})
	if len(errs) != 3 || errs[0] != nil || !errors.Is(errs[1], errTooLong) || !errors.Is(errs[2], unix.ENODEV) {
		t.Errorf("errors %v", errs)
	}
	if _, err := s.Do(t.Context(), long); !errors.Is(err, errTooLong) {
		t.Errorf("Do: %v", err)
	}
}

func TestDumpLinks(t *testing.T) {
	s := openRoute(t)
	lo := 0
	err := s.Dump(t.Context(), getLink(0), func(body []byte) error {
		for a, err := range Parse(body[unix.SizeofIfInfomsg:]) {
			if err != nil {
				return err
			}
			if a.Type == unix.IFLA_IFNAME && a.String() == "lo" {
				lo++
			}
		}
		return nil
	})
	if err != nil || lo != 1 {
		t.Fatalf("found lo %d times, error %v", lo, err)
	}
}

// An error of the caller ends the list, not the socket.
func TestDumpStopped(t *testing.T) {
	s := openRoute(t)
	stop, calls := errors.New("stop"), 0
	err := s.Dump(t.Context(), getLink(0), func([]byte) error { calls++; return stop })
	if !errors.Is(err, stop) || calls != 1 {
		t.Fatalf("%d calls, error %v", calls, err)
	}
	TestDumpLinks(t)
	if errs := s.Execute(t.Context(), []Request{getLink(1)}); errs != nil {
		t.Fatalf("errors %v", errs)
	}
}

func TestDo(t *testing.T) {
	s := openRoute(t)
	bodies, err := s.Do(t.Context(), getLink(1))
	if err != nil || len(bodies) != 1 {
		t.Fatalf("%d bodies, error %v", len(bodies), err)
	}
	if _, err := s.Do(t.Context(), getLink(1<<30)); !errors.Is(err, unix.ENODEV) {
		t.Errorf("error %v", err)
	}
}

func TestGenericFamily(t *testing.T) {
	s, err := Open(unix.NETLINK_GENERIC)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	id, err := s.GenericFamily(t.Context(), "nlctrl")
	if err != nil || id != unix.GENL_ID_CTRL {
		t.Errorf("nlctrl is %d, error %v", id, err)
	}
	if _, err := s.GenericFamily(t.Context(), "no-such-family"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v", err)
	}
}

func TestConcurrentUse(t *testing.T) {
	s := openRoute(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				if errs := s.Execute(t.Context(), []Request{getLink(1 << 30), getLink(1)}); len(errs) != 2 || errs[0] == nil || errs[1] != nil {
					t.Errorf("errors %v", errs)
				}
				if _, err := s.Do(t.Context(), getLink(1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func BenchmarkExecute(b *testing.B) {
	s := openRoute(b)
	// The kernel checks and refuses at once, so most of the time is the socket's
	// own; success would allocate nothing beyond the buffers.
	requests := make([]Request, maxBatch)
	for i := range requests {
		requests[i] = Request{Type: unix.NLMSG_NOOP} // skipped by the kernel, acknowledged when last
	}
	b.ReportAllocs()
	for b.Loop() {
		if errs := s.Execute(b.Context(), requests); errs != nil {
			b.Fatal(errs)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*maxBatch), "ns/request")
}
