package netlink

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Execute sends the requests in order, in batches. Each is on its own: one that
// fails does not stop those after it. It returns nil when all succeeded, else one
// error (or nil) a request, in order. A refusal of the kernel is an *Error; ErrLost
// stands for "sent, outcome unknown"; any other error means that the request was
// not sent. Without a deadline in ctx each batch has ten seconds.
func (s *Socket) Execute(ctx context.Context, requests []Request) []error {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := failures{total: len(requests)}
	for at := 0; at < len(requests); {
		if err := s.ready(ctx); err != nil {
			f.setAll(at, len(requests), err)
			break
		}
		n := s.pack(requests[at:])
		if n == 0 {
			f.set(at, errTooLong)
			at++
			continue
		}
		err := s.runBatch(ctx, &f, at, n)
		at += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			f.setAll(at, len(requests), fmt.Errorf("not sent: %w", err))
			break
		}
	}
	return f.errs
}

// pack fills s.out with as many of the requests as make a batch and returns their
// number, zero when already the first is too long for a message. Their sequence
// numbers are those after s.sequence.
func (s *Socket) pack(requests []Request) int {
	n, size := 0, 0
	for n < len(requests) && n < maxBatch {
		length := (headerSize + len(requests[n].Body) + 3) &^ 3
		if length > maxMessage || (n > 0 && size+length > maxBatchBytes) {
			break
		}
		size += length
		n++
	}
	s.out = s.out[:0]
	for i, r := range requests[:n] {
		var flags uint16
		if i == n-1 {
			flags = unix.NLM_F_ACK
		}
		s.out = appendMessage(s.out, r, flags, s.sequence+uint32(i)+1)
	}
	return n
}

// runBatch sends the n packed requests, of which the first has index at in f, and
// reads until the last one is answered. It returns why the batch was lost, if it was.
func (s *Socket) runBatch(ctx context.Context, f *failures, at, n int) error {
	first := s.sequence + 1
	s.sequence += uint32(n)
	if err := s.send(); err != nil {
		f.setAll(at, at+n, fmt.Errorf("send: %w", err))
		return nil
	}
	until := s.deadline(ctx)
	answered := make([]bool, 0, maxBatch)[:n] // stays on the stack
	for {
		size, err := s.receive(ctx, until)
		if err != nil {
			return s.loseBatch(f, at, answered, err)
		}
		for m, err := range messages(s.in[:size]) {
			if err != nil || m.kind == unix.NLMSG_OVERRUN {
				return s.loseBatch(f, at, answered, errors.Join(err, unix.ENOBUFS))
			}
			i := m.sequence - first
			if m.kind != unix.NLMSG_ERROR || i >= uint32(n) {
				continue // data that nobody asked for, or an answer to an earlier call
			}
			answered[i] = true
			if err := answer(m); err != nil {
				f.set(at+int(i), err)
			}
			if i == uint32(n)-1 {
				return nil
			}
		}
	}
}

// loseBatch marks all requests of the batch that have no answer as lost. Silence
// does not mean success here: it may be the answer that was dropped.
func (s *Socket) loseBatch(f *failures, at int, answered []bool, cause error) error {
	s.drain()
	for i, ok := range answered {
		if !ok {
			f.set(at+i, lost(cause))
		}
	}
	return cause
}

// failures is a list of errors that is made at the first one.
type failures struct {
	total int
	errs  []error
}

func (f *failures) set(i int, err error) {
	if f.errs == nil {
		f.errs = make([]error, f.total)
	}
	f.errs[i] = err
}

func (f *failures) setAll(from, to int, err error) {
	for i := from; i < to; i++ {
		f.set(i, err)
	}
}
