package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

const patience = 10 * time.Second

// bench is a running Forwarder, and a server that it may forward to.
type bench struct {
	*testing.T
	f      *Forwarder
	server *net.TCPListener
	failed atomic.Int32
	end    func()
}

func newBench(t *testing.T, serve func(*net.TCPConn)) *bench {
	b := &bench{T: t, server: listen(t, "127.0.0.1:0")}
	go func() {
		for {
			conn, err := b.server.AcceptTCP()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	b.f = New(func(string, error) { b.failed.Add(1) })
	b.f.retry = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { b.f.Run(ctx); close(done) }()
	b.end = func() { cancel(); <-done }
	t.Cleanup(b.end)
	return b
}

func listen(t *testing.T, at string) *net.TCPListener {
	t.Helper()
	l, err := net.Listen("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.(*net.TCPListener)
}

func addr(l *net.TCPListener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }

// free is an address that nobody listens at.
func free(t *testing.T, ip string) netip.AddrPort {
	l := listen(t, net.JoinHostPort(ip, "0"))
	defer func() { _ = l.Close() }()
	return addr(l)
}

// eventually waits for a wish.
func (b *bench) eventually(what string, wish func() bool) {
	b.Helper()
	for deadline := time.Now().Add(patience); !wish(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// dial connects as soon as somebody listens.
func (b *bench) dial(at netip.AddrPort) (conn *net.TCPConn) {
	b.Helper()
	b.eventually("connect to "+at.String(), func() bool {
		c, err := net.Dial("tcp", at.String())
		if err == nil {
			conn = c.(*net.TCPConn)
			b.Cleanup(func() { _ = conn.Close() })
			_ = conn.SetDeadline(time.Now().Add(patience))
		}
		return err == nil
	})
	return conn
}

func (b *bench) refused(at netip.AddrPort) {
	b.Helper()
	b.eventually("refusal at "+at.String(), func() bool {
		c, err := net.Dial("tcp", at.String())
		if err == nil {
			_ = c.Close()
		}
		return errors.Is(err, syscall.ECONNREFUSED)
	})
}

// upper answers in capitals when it has read all: it needs the client's half close.
func upper(conn *net.TCPConn) {
	defer func() { _ = conn.Close() }()
	text, err := io.ReadAll(conn)
	if err == nil {
		_, _ = io.WriteString(conn, strings.ToUpper(string(text)))
	}
}

// echo sends back what it gets.
func echo(conn *net.TCPConn) {
	defer func() { _ = conn.Close() }()
	_, _ = io.Copy(conn, conn)
}

func ask(t *testing.T, conn *net.TCPConn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(text))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != text {
		t.Fatalf("got %q (%v), want %q", got, err, text)
	}
}

func TestHalfCloseOfBothFamilies(t *testing.T) {
	b := newBench(t, upper)
	v4, v6 := free(t, "127.0.0.1"), free(t, "::1")
	b.f.Update(map[netip.AddrPort]Target{v4: {"a", addr(b.server)}, v6: {"a", addr(b.server)}})
	text := strings.Repeat("x", 1<<20)
	for _, at := range []netip.AddrPort{v4, v6} {
		conn := b.dial(at)
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		if err := conn.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(conn)
		if err != nil || string(got) != strings.ToUpper(text) {
			t.Errorf("%v: %d bytes (%v), want %d", at, len(got), err, len(text))
		}
	}
}

func TestUpdateOpensAndCloses(t *testing.T) {
	b := newBench(t, echo)
	at := free(t, "127.0.0.1")
	b.f.Update(map[netip.AddrPort]Target{at: {"a", addr(b.server)}})
	before := b.dial(at)
	ask(t, before, "one")
	other := listen(t, "127.0.0.1:0")
	b.f.Update(map[netip.AddrPort]Target{at: {"a", addr(other)}})
	b.eventually("the new target", func() bool {
		conn := b.dial(at)
		defer func() { _ = conn.Close() }()
		_ = other.SetDeadline(time.Now().Add(20 * time.Millisecond))
		got, err := other.Accept()
		if err == nil {
			_ = got.Close()
		}
		return err == nil
	})
	ask(t, before, "two")
	b.f.Update(nil)
	b.refused(at)
	ask(t, before, "three")
}

func TestAPortThatIsTakenIsToldOnce(t *testing.T) {
	b := newBench(t, echo)
	taken := listen(t, "127.0.0.1:0")
	b.f.Update(map[netip.AddrPort]Target{addr(taken): {"a", addr(b.server)}})
	b.eventually("word of it", func() bool { return b.failed.Load() > 0 })
	time.Sleep(20 * b.f.retry)
	if n := b.failed.Load(); n != 1 {
		t.Errorf("told %d times", n)
	}
	at := addr(taken)
	_ = taken.Close()
	b.eventually("an answer", func() bool {
		conn, err := net.Dial("tcp", at.String())
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	})
}

// A Service that refuses, and a server that resets, reset the client: neither is taken
// for an answer that is empty.
func TestRefusalsAndResetsArePassedOn(t *testing.T) {
	b := newBench(t, func(conn *net.TCPConn) { reset(conn) })
	resets, refuses := free(t, "127.0.0.1"), free(t, "127.0.0.1")
	b.f.Update(map[netip.AddrPort]Target{resets: {"a", addr(b.server)}, refuses: {"b", free(t, "127.0.0.1")}})
	for _, at := range []netip.AddrPort{resets, refuses} {
		if got, err := io.ReadAll(b.dial(at)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%v: %q (%v), want a reset", at, got, err)
		}
	}
}

// Connections are bounded, and all that was opened is closed at the end.
func TestNothingLeaks(t *testing.T) {
	goroutines, files := runtime.NumGoroutine(), descriptors(t)
	b := newBench(t, echo)
	at := free(t, "127.0.0.1")
	b.f.Update(map[netip.AddrPort]Target{at: {"a", addr(b.server)}})
	var held []*net.TCPConn
	for range maxConnections {
		conn := b.dial(at)
		ask(t, conn, "x")
		held = append(held, conn)
	}
	late := b.dial(at) // in the kernel's queue
	if _, err := io.WriteString(late, "y"); err != nil {
		t.Fatal(err)
	}
	_ = late.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := late.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("one too many is served: %d, %v", n, err)
	}
	reset(held[0])
	_ = late.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.ReadFull(late, make([]byte, 1)); err != nil {
		t.Errorf("a place that came free is not used: %v", err)
	}
	b.end()
	if _, err := held[1].Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the end: %v", err)
	}
	for _, conn := range append(held, late) {
		_ = conn.Close()
	}
	_ = b.server.Close()
	b.eventually("goroutines and descriptors as before", func() bool {
		return runtime.NumGoroutine() <= goroutines && descriptors(t) <= files
	})
}

func descriptors(t *testing.T) int {
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
