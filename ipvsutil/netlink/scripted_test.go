package netlink

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// scripted is a socket whose kernel is a function of the test.
func scripted(t *testing.T, kernel func(fd int, requests []message)) *Socket {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	s := newSocket(pair[0], inSize)
	done := make(chan struct{})
	go func() {
		defer close(done)
		in := make([]byte, inSize)
		poll := []unix.PollFd{{Fd: int32(pair[1]), Events: unix.POLLIN}}
		for {
			if _, err := unix.Poll(poll, -1); err != nil {
				continue
			}
			n, err := unix.Read(pair[1], in)
			if err != nil || n == 0 {
				return
			}
			var requests []message
			for m, err := range messages(in[:n]) {
				if err != nil {
					t.Error(err)
				}
				m.body = bytes.Clone(m.body)
				requests = append(requests, m)
			}
			kernel(pair[1], requests)
		}
	}()
	t.Cleanup(func() {
		_ = unix.Shutdown(pair[0], unix.SHUT_RDWR)
		<-done
		_ = s.Close()
		_ = unix.Close(pair[1])
	})
	return s
}

// say sends one datagram of replies: kind, flags, sequence, code or data.
func say(t *testing.T, fd int, replies ...message) {
	t.Helper()
	var b []byte
	for _, m := range replies {
		start := len(b)
		b = appendMessage(b, Request{Type: m.kind, Body: m.body}, m.flags, m.sequence)
		binary.NativeEndian.PutUint16(b[start+6:], m.flags)
	}
	if _, err := unix.Write(fd, b); err != nil {
		t.Error(err)
	}
}

func code(errno unix.Errno) []byte {
	return binary.NativeEndian.AppendUint32(nil, uint32(-int32(errno)))
}

func TestExecuteAsksForOneAcknowledgement(t *testing.T) {
	batches := make(chan []message, 2)
	s := scripted(t, func(fd int, requests []message) {
		batches <- requests
		last := requests[len(requests)-1]
		say(t, fd, message{kind: unix.NLMSG_ERROR, sequence: last.sequence, body: code(0)})
	})
	requests := make([]Request, maxBatch+2)
	for i := range requests {
		requests[i] = Request{Type: 77, Flags: unix.NLM_F_ACK | unix.NLM_F_EXCL, Body: []byte{byte(i)}}
	}
	if errs := s.Execute(t.Context(), requests); errs != nil {
		t.Fatalf("errors %v", errs)
	}
	seen := append(<-batches, <-batches...)
	if len(seen) != len(requests) {
		t.Fatalf("%d messages", len(seen))
	}
	for i, m := range seen {
		want := uint16(unix.NLM_F_REQUEST | unix.NLM_F_EXCL)
		if i == maxBatch-1 || i == maxBatch+1 {
			want |= unix.NLM_F_ACK
		}
		if m.kind != 77 || m.flags != want || m.sequence != uint32(i+1) || m.body[0] != byte(i) {
			t.Errorf("message %d is %+v", i, m)
		}
	}
}

// Answers to an earlier call, which was given up, do not count for a later one.
func TestExecuteIgnoresStaleAnswers(t *testing.T) {
	s := scripted(t, func(fd int, requests []message) {
		n := requests[0].sequence
		say(t, fd,
			message{kind: unix.NLMSG_ERROR, sequence: n - 1, body: code(unix.EEXIST)},
			message{kind: unix.NLMSG_ERROR, sequence: n + 2, body: code(unix.EEXIST)},
			message{kind: 99, sequence: n + 1, body: code(unix.EEXIST)})
		say(t, fd, message{kind: unix.NLMSG_ERROR, sequence: n + 1, body: code(0)})
	})
	if errs := s.Execute(t.Context(), []Request{{}, {}}); errs != nil {
		t.Fatalf("errors %v", errs)
	}
}

// A kernel that never answers gives lost for the batch that went out and "not
// sent" for the rest, at the deadline and not later.
func TestExecuteWithoutAnswer(t *testing.T) {
	s := scripted(t, func(fd int, requests []message) {
		if requests[0].sequence == 1 {
			say(t, fd, message{kind: unix.NLMSG_ERROR, sequence: 3, body: code(unix.EPERM)})
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	start := time.Now()
	errs := s.Execute(ctx, make([]Request, maxBatch+1))
	if took := time.Since(start); took > 5*time.Second {
		t.Errorf("took %v", took)
	}
	if len(errs) != maxBatch+1 {
		t.Fatalf("%d errors", len(errs))
	}
	for i, err := range errs {
		switch {
		case i == 2 && !errors.Is(err, unix.EPERM):
			t.Errorf("error of %d is %v", i, err)
		case i != 2 && errors.Is(err, ErrLost) != (i < maxBatch):
			t.Errorf("error of %d is %v", i, err)
		case err == nil:
			t.Errorf("no error of %d", i)
		}
	}
}

// Without a deadline of the caller the socket's own patience ends the wait, and
// nothing more is sent to a kernel that does not answer.
func TestExecuteEndsItsOwnWait(t *testing.T) {
	var seen atomic.Int64
	s := scripted(t, func(_ int, requests []message) { seen.Add(int64(len(requests))) })
	s.patience = 20 * time.Millisecond
	errs := s.Execute(t.Context(), make([]Request, 3*maxBatch))
	if len(errs) != 3*maxBatch {
		t.Fatalf("%d errors", len(errs))
	}
	for i, err := range errs {
		if !errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, ErrLost) != (i < maxBatch) {
			t.Errorf("error of %d is %v", i, err)
		}
	}
	if _, err := s.Do(t.Context(), Request{}); !errors.Is(err, ErrLost) || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("Do: %v", err)
	}
	if n := seen.Load(); n != maxBatch+1 {
		t.Errorf("%d requests were sent", n)
	}
}

// Cancelling ends a wait that is under way.
func TestCancelEndsWait(t *testing.T) {
	s := scripted(t, func(int, []message) {})
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := s.Dump(ctx, Request{}, nil); !errors.Is(err, ErrLost) || !errors.Is(err, context.Canceled) {
		t.Errorf("Dump: %v", err)
	}
}

func TestBrokenReplies(t *testing.T) {
	for name, reply := range map[string][]byte{
		"short header":     {1, 2, 3},
		"length too small": binary.NativeEndian.AppendUint32(nil, 3),
		"length too big":   append(binary.NativeEndian.AppendUint32(nil, 1<<20), make([]byte, 20)...),
		"overrun":          appendMessage(nil, Request{Type: unix.NLMSG_OVERRUN}, 0, 1),
	} {
		s := scripted(t, func(fd int, _ []message) { _, _ = unix.Write(fd, reply) })
		if errs := s.Execute(t.Context(), []Request{{}}); len(errs) != 1 || !errors.Is(errs[0], ErrLost) {
			t.Errorf("%s: Execute %v", name, errs)
		}
		if _, err := s.Do(t.Context(), Request{}); !errors.Is(err, ErrLost) && name != "overrun" {
			t.Errorf("%s: Do %v", name, err)
		}
	}
}

func TestDumpEnds(t *testing.T) {
	data := func(n uint32, flags uint16) message {
		return message{kind: 99, flags: unix.NLM_F_MULTI | flags, sequence: n, body: []byte("data")}
	}
	for name, c := range map[string]struct {
		parts func(n uint32) []message
		want  error
		calls int
	}{
		"done": {func(n uint32) []message {
			return []message{data(n, 0), data(n-1, 0), data(n, 0), {kind: unix.NLMSG_DONE, sequence: n, body: code(0)}}
		}, nil, 2},
		"done without a code": {func(n uint32) []message {
			return []message{data(n, 0), {kind: unix.NLMSG_DONE, sequence: n}}
		}, nil, 1},
		"code in done": {func(n uint32) []message {
			return []message{data(n, 0), {kind: unix.NLMSG_DONE, sequence: n, body: code(unix.ESRCH)}}
		}, unix.ESRCH, 1},
		"refused": {func(n uint32) []message {
			return []message{{kind: unix.NLMSG_ERROR, sequence: n, body: code(unix.EPERM)}}
		}, unix.EPERM, 0},
		"interrupted": {func(n uint32) []message {
			return []message{data(n, unix.NLM_F_DUMP_INTR), data(n, 0), {kind: unix.NLMSG_DONE, sequence: n, body: code(0)}}
		}, ErrInterrupted, 2},
		"interrupted at the end": {func(n uint32) []message {
			return []message{{kind: unix.NLMSG_DONE, flags: unix.NLM_F_DUMP_INTR, sequence: n, body: code(0)}}
		}, ErrInterrupted, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := scripted(t, func(fd int, requests []message) {
				if requests[0].flags != unix.NLM_F_REQUEST|unix.NLM_F_DUMP {
					t.Errorf("flags %#x", requests[0].flags)
				}
				for _, m := range c.parts(requests[0].sequence) {
					say(t, fd, m)
				}
			})
			calls := 0
			err := s.Dump(t.Context(), Request{}, func(body []byte) error {
				calls++
				if string(body) != "data" {
					t.Errorf("body %q", body)
				}
				return nil
			})
			if !errors.Is(err, c.want) || calls != c.calls {
				t.Errorf("%d calls, error %v; want %d, %v", calls, err, c.calls, c.want)
			}
		})
	}
}
