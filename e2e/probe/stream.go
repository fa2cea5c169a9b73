package probe

import (
	"bufio"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// Stream is a connection that is kept open.
type Stream struct {
	// First is the result of the connect.
	First Result
	s     socket
	r     *bufio.Reader
	asked int
}

// Hold connects (TCP or SCTP) and keeps the connection.
func (p *Probe) Hold(c Call) (*Stream, error) {
	if c.Protocol == UDP {
		return nil, errors.New("hold: UDP has no stream")
	}
	s, r := p.ask(c, time.Now())
	if r.Outcome != OK {
		if s.File != nil {
			r.Err = errors.Join(r.Err, s.Close())
		}
		return nil, r.Err
	}
	return &Stream{First: r, s: s, r: bufio.NewReader(s)}, nil
}

// Alive sends a line and waits for it to come back; nil means that the stream
// works in both directions.
func (s *Stream) Alive(timeout time.Duration) error {
	if err := s.s.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	s.asked++
	line := fmt.Sprintf("line %d\n", s.asked)
	if _, err := s.s.Write([]byte(line)); err != nil {
		return fmt.Errorf("stream to %s: %w", s.First.Who, err)
	}
	got, err := s.r.ReadString('\n')
	if err != nil {
		return fmt.Errorf("stream to %s: %w", s.First.Who, err)
	}
	if got != line {
		return fmt.Errorf("stream to %s: sent %q, got %q", s.First.Who, line, got)
	}
	return nil
}

// Reset ends the stream by a TCP reset: nobody on the way remembers it for as long as
// one that was closed in order.
func (s *Stream) Reset() error {
	var err error
	control := s.s.raw.Control(func(fd uintptr) {
		err = unix.SetsockoptLinger(int(fd), unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	})
	return errors.Join(control, err, s.Close())
}

// Close ends the stream.
func (s *Stream) Close() error { return s.s.Close() }
