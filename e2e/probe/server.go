package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// Server answers each connection and each datagram with an Answer. A connection
// stays open: further lines are sent back as they are.
type Server struct {
	probe  *Probe
	proto  Protocol
	listen socket
	local  netip.AddrPort

	mu     sync.Mutex
	closed bool
	open   map[socket]bool
	done   sync.WaitGroup
}

// Serve starts a server at addr; port zero means any free port. An unspecified
// address answers at all addresses of its family, but for UDP use one address:
// the answer names the address the socket is bound to.
func (p *Probe) Serve(proto Protocol, addr netip.AddrPort) (*Server, error) {
	fd, err := p.open(proto, addr.Addr(), socketOptions{bind: addr})
	if err != nil {
		return nil, fmt.Errorf("serve %v %v: %w", proto, addr, err)
	}
	if proto != UDP {
		if err := unix.Listen(fd, unix.SOMAXCONN); err != nil {
			return nil, errors.Join(fmt.Errorf("serve %v %v: listen: %w", proto, addr, err), unix.Close(fd))
		}
	}
	s := &Server{probe: p, proto: proto, open: map[socket]bool{}}
	if s.listen, err = wrap(fd, "server"); err != nil {
		return nil, err
	}
	if s.local, err = s.listen.local(); err != nil {
		return nil, errors.Join(err, s.listen.Close())
	}
	if proto == UDP {
		s.done.Go(s.answerDatagrams)
	} else {
		s.done.Go(s.acceptAll)
	}
	return s, nil
}

// Addr is where the server listens.
func (s *Server) Addr() netip.AddrPort { return s.local }

// Close ends the server and its connections.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	err := s.listen.Close()
	for c := range s.open {
		err = errors.Join(err, c.Close())
	}
	s.open = nil
	s.mu.Unlock()
	s.done.Wait()
	return err
}

func (s *Server) answerDatagrams() {
	buf := make([]byte, 2048)
	for {
		_, from, err := s.listen.receive(buf)
		if errors.Is(err, unix.ECONNREFUSED) {
			continue // an earlier answer came back: its client is gone
		}
		if err != nil {
			return
		}
		// A lost answer shows up at the client.
		_ = s.listen.sendTo(s.answer(addrPort(from), s.local), from)
	}
}

func (s *Server) acceptAll() {
	for {
		fd, source, err := s.listen.accept()
		if errors.Is(err, unix.ECONNABORTED) || errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return
		}
		c, err := wrap(fd, "connection")
		if err != nil {
			continue
		}
		if !s.keep(c) {
			_ = c.Close()
			return
		}
		s.done.Go(func() { s.talk(c, source) })
	}
}

// keep remembers an open connection; false when the server is closed.
func (s *Server) keep(c socket) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.open[c] = true
	return true
}

// talk greets and then echoes lines until the peer or the server ends it.
func (s *Server) talk(c socket, source netip.AddrPort) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, c)
		_ = c.Close()
	}()
	local, err := c.local()
	if err != nil {
		return
	}
	if _, err := c.Write(s.answer(source, local)); err != nil {
		return
	}
	for r := bufio.NewReader(c); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		if _, err := c.Write(line); err != nil {
			return
		}
	}
}

func (s *Server) answer(source, local netip.AddrPort) []byte {
	line, err := json.Marshal(Answer{Who: s.probe.name, Source: source, Local: local})
	if err != nil {
		panic(err) // three strings
	}
	return append(line, '\n')
}
