package netlink

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Dump sends the request as a dump and calls each with the body of every reply. A
// body is valid until each returns; each must not use the same socket. An error of
// each is returned after the rest of the dump was read and thrown away, so the
// socket stays usable. An errno at the end of the dump is an *Error; ErrInterrupted
// comes after all replies were handed over; ErrLost means an incomplete list.
// Without a deadline in ctx each wait for a part has ten seconds.
func (s *Socket) Dump(ctx context.Context, r Request, each func(body []byte) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failed error
	interrupted := false
	err := s.exchange(ctx, r, unix.NLM_F_DUMP, func(m message) {
		interrupted = interrupted || m.flags&unix.NLM_F_DUMP_INTR != 0
		if failed == nil && m.kind >= unix.NLMSG_MIN_TYPE {
			failed = each(m.body)
		}
	})
	switch {
	case failed != nil:
		return failed
	case err != nil:
		return err
	case interrupted:
		return ErrInterrupted
	}
	return nil
}

// Do sends one request and returns copies of the bodies of its replies; a request
// that only changes something has none. A refusal of the kernel is an *Error.
func (s *Socket) Do(ctx context.Context, r Request) ([][]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var bodies [][]byte
	err := s.exchange(ctx, r, unix.NLM_F_ACK, func(m message) {
		if m.kind >= unix.NLMSG_MIN_TYPE {
			bodies = append(bodies, bytes.Clone(m.body))
		}
	})
	if err != nil {
		return nil, err
	}
	return bodies, nil
}

// exchange sends one request and hands every message of its reply to visit, up to
// and including the one that ends it: NLMSG_DONE, an error, or the acknowledgement.
func (s *Socket) exchange(ctx context.Context, r Request, flags uint16, visit func(message)) error {
	if err := s.ready(ctx); err != nil {
		return err
	}
	if headerSize+len(r.Body) > maxMessage {
		return errTooLong
	}
	s.sequence++
	s.out = appendMessage(s.out[:0], r, flags, s.sequence)
	if err := s.send(); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	for {
		size, err := s.receive(ctx, s.deadline(ctx))
		if err != nil {
			s.drain()
			return lost(err)
		}
		for m, err := range messages(s.in[:size]) {
			if err != nil || m.kind == unix.NLMSG_OVERRUN {
				s.drain()
				return lost(errors.Join(err, unix.ENOBUFS))
			}
			if m.sequence != s.sequence {
				continue // an answer to an earlier call
			}
			visit(m)
			if m.kind == unix.NLMSG_DONE || m.kind == unix.NLMSG_ERROR {
				return answer(m)
			}
		}
	}
}
