package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// checkServers are the open ports of Checks. Run's goroutine has them alone.
type checkServers struct {
	checks   *Checks
	open     map[place]*checkServer
	failures map[place]checkFailure
}

// checkFailure is a place that cannot be served, since a time; told: somebody knows.
type checkFailure struct {
	since time.Time
	told  bool
}

func newCheckServers(c *Checks) *checkServers {
	return &checkServers{checks: c, open: map[place]*checkServer{}, failures: map[place]checkFailure{}}
}

type checkServer struct {
	http     *http.Server
	listener net.Listener
	// ended: it no longer accepts, though nobody closed it.
	ended atomic.Bool
}

// match closes what is not wanted, then opens what is: a port may go from one
// Service to another. It returns a channel for the time of the next try, nil when
// nothing failed.
func (s *checkServers) match(ctx context.Context, wanted map[place]bool) <-chan time.Time {
	for at, server := range s.open {
		if !wanted[at] || server.ended.Load() {
			server.close()
			delete(s.open, at)
		}
	}
	maps.DeleteFunc(s.failures, func(at place, _ checkFailure) bool { return !wanted[at] })
	failed := false
	for _, at := range slices.SortedFunc(maps.Keys(wanted), comparePlaces) {
		if s.open[at] != nil {
			continue
		}
		if err := s.listen(ctx, at); err != nil {
			failed = true
			s.tell(at, err)
			continue
		}
		delete(s.failures, at)
	}
	if !failed {
		return nil
	}
	return time.After(s.checks.retry)
}

// comparePlaces makes it the same Service that wins a port that two want.
func comparePlaces(a, b place) int {
	return cmp.Or(cmp.Compare(a.name.Namespace, b.name.Namespace), cmp.Compare(a.name.Name, b.name.Name),
		cmp.Compare(a.port, b.port), a.addr.Compare(b.addr))
}

// tell says a failure once. An address that is not there yet is given time: a new
// IPv6 address cannot be used while its uniqueness is being checked.
func (s *checkServers) tell(at place, err error) {
	f := s.failures[at]
	if f.since.IsZero() {
		f.since = time.Now()
	}
	early := errors.Is(err, syscall.EADDRNOTAVAIL) && time.Since(f.since) < s.checks.retry
	if !f.told && !early && s.checks.failed != nil {
		f.told = true
		s.checks.failed(at.name, err)
	}
	s.failures[at] = f
}

func (s *checkServers) listen(ctx context.Context, at place) error {
	family, network := IPv4, "tcp4"
	if at.addr.Is6() {
		family, network = IPv6, "tcp6"
	}
	address := netip.AddrPortFrom(at.addr, at.port).String()
	listener, err := new(net.ListenConfig).Listen(ctx, network, address)
	if err != nil {
		return fmt.Errorf("health check of Service %s: %w", at.name, err)
	}
	server := &checkServer{http: newHTTPServer(s.checks.handler(at.name, family), nil), listener: listener}
	s.open[at] = server
	go func() {
		if err := server.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			server.ended.Store(true)
			s.checks.poke()
		}
	}()
	return nil
}

func (s *checkServers) closeAll() {
	for _, server := range s.open {
		server.close()
	}
}

// close ends the server and its connections. The port is free when it returns, even
// if Serve has not begun yet and so the server does not know the listener.
func (c *checkServer) close() {
	_ = c.http.Close()
	_ = c.listener.Close()
}
