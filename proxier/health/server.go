package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// The ports of kube-proxy, for addresses that name none.
const (
	HealthPort  uint16 = 10256
	MetricsPort uint16 = 10249
)

// BindAddress returns address, an IP or IP:port ("[IP]:port" for IPv6), with the
// port appended when it has none. Empty stays empty: that server is off.
func BindAddress(address string, port uint16) (string, error) {
	if address == "" {
		return "", nil
	}
	if _, err := netip.ParseAddrPort(address); err == nil {
		return address, nil
	}
	bare := address
	if n := len(bare); n > 1 && bare[0] == '[' && bare[n-1] == ']' {
		bare = bare[1 : n-1]
	}
	if ip, err := netip.ParseAddr(bare); err == nil {
		return netip.AddrPortFrom(ip, port).String(), nil
	}
	return "", fmt.Errorf("bind address %q: want an IP address, with or without a port", address)
}

// Server serves plain HTTP at one address.
type Server struct {
	// Name is for errors, for example "health server".
	Name string
	// Address is IP:port, see BindAddress; empty means that there is no such server.
	// An unspecified address serves both families where the host has both.
	Address string
	Handler http.Handler
	// HardFail ends Run when the address cannot be served, instead of trying again.
	HardFail bool
	// Failed is told of a failure that is tried again: when it appears or becomes
	// another one. Nil means that nobody wants to know.
	Failed func(error)

	// retry is the time between two tries to listen; zero means listenRetry.
	retry time.Duration
}

// listenRetry is the time between two tries to listen.
const listenRetry = 5 * time.Second

// Run serves until the context ends, and then returns nil. It returns an error with
// HardFail only.
func (s Server) Run(ctx context.Context) error {
	if s.Address == "" {
		return nil
	}
	said := ""
	for {
		err := s.serve(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if s.HardFail {
			return err
		}
		if err.Error() != said && s.Failed != nil {
			s.Failed(err)
		}
		said = err.Error()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(cmp.Or(s.retry, listenRetry)):
		}
	}
}

// serve listens and serves once; the error is never nil.
func (s Server) serve(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", s.Address)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Name, err)
	}
	server := newHTTPServer(s.Handler, s.Failed)
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	return fmt.Errorf("%s at %s: %w", s.Name, s.Address, server.Serve(listener))
}

// newHTTPServer bounds what a client can hold: a node's ports are reachable by
// many. Reading and writing as a whole have no limit, since a profile takes as long
// as it is asked to. What the server has to say (a handler's panic, say) goes to
// failed, unless that is nil.
func newHTTPServer(handler http.Handler, failed func(error)) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(complaints(failed), "", 0),
	}
}

// complaints is a writer that turns each line into a call.
type complaints func(error)

func (c complaints) Write(line []byte) (int, error) {
	if c != nil {
		c(errors.New(strings.TrimSpace(string(line))))
	}
	return len(line), nil
}
