package watch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

const (
	// dialTimeout bounds a connection that is refused by silence.
	dialTimeout = 10 * time.Second
	// answerTimeout bounds the wait for the beginning of an answer. The API server
	// itself gives up after that time.
	answerTimeout = time.Minute
)

// servers sends requests to one of several API servers of a cluster, and to the next
// one when that does not answer.
type servers struct {
	next    http.RoundTripper
	urls    []*url.URL
	current atomic.Int64
	answer  time.Duration
}

// newServers needs the next RoundTripper before its first use.
func newServers(urls []*url.URL) *servers {
	return &servers{urls: urls, answer: answerTimeout}
}

// serverURLs reads the host of a configuration, which may be several.
func serverURLs(config *rest.Config) ([]*url.URL, error) {
	secure := rest.IsConfigTransportTLS(*config)
	var urls []*url.URL
	for _, text := range cut(config.Host) {
		u, _, err := rest.DefaultServerURL(text, "", corev1.SchemeGroupVersion, secure)
		if err != nil {
			return nil, fmt.Errorf("API server %q: %w", clip(text), err)
		}
		if u.Scheme != "http" && u.Scheme != "https" {
			return nil, fmt.Errorf("API server %q: must begin with https:// or http://", clip(text))
		}
		if len(urls) > 0 && (u.Path != urls[0].Path || u.Scheme != urls[0].Scheme) {
			return nil, fmt.Errorf("API server %q: scheme and path must be those of the first one, %s", clip(text), urls[0])
		}
		urls = append(urls, u)
	}
	if len(urls) == 0 {
		return nil, errors.New("the address of the API server is empty")
	}
	return urls, nil
}

// Servers are the addresses at which the client reaches API servers, those by name as the
// host's resolver knows them now. What cannot be resolved is left out, and told.
func (c *Client) Servers(ctx context.Context) ([]netip.AddrPort, error) {
	var found []netip.AddrPort
	var errs []error
	for _, u := range c.servers.urls {
		port := u.Port()
		if port == "" {
			port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
		}
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			errs = append(errs, fmt.Errorf("API server %s: port: %w", u.Host, err))
			continue
		}
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
		if err != nil {
			errs = append(errs, fmt.Errorf("API server %s: %w", u.Host, err))
		}
		for _, a := range addrs {
			found = append(found, netip.AddrPortFrom(a.Unmap(), uint16(number)))
		}
	}
	return found, errors.Join(errs...)
}

// RoundTrip sends a request to the present server, and to each other one until one
// of them answers.
func (s *servers) RoundTrip(request *http.Request) (*http.Response, error) {
	var failed error
	for n := range len(s.urls) {
		at := s.current.Load()
		host := s.urls[at%int64(len(s.urls))].Host
		attempt, err := s.attempt(request, host, n > 0)
		if err != nil {
			return nil, errors.Join(failed, err)
		}
		response, err := s.send(attempt)
		if err == nil {
			if response.StatusCode >= http.StatusBadGateway {
				s.leave(at)
			}
			return response, nil
		}
		if failed != nil {
			err = fmt.Errorf("%w; %w", failed, err)
		}
		failed = err
		if request.Context().Err() != nil || request.Body != nil && request.GetBody == nil {
			return nil, failed
		}
		s.leave(at)
	}
	return nil, failed
}

// leave turns to the next server, unless somebody did that already.
func (s *servers) leave(at int64) { s.current.CompareAndSwap(at, at+1) }

// attempt is the request for one server.
func (s *servers) attempt(request *http.Request, host string, again bool) (*http.Request, error) {
	attempt := request.Clone(request.Context())
	attempt.URL.Host = host
	attempt.Host = ""
	if again && request.GetBody != nil {
		body, err := request.GetBody()
		if err != nil {
			return nil, err
		}
		attempt.Body = body
	}
	return attempt, nil
}

// send waits for the beginning of the answer, but not for ever. What comes after it
// may take any time.
func (s *servers) send(request *http.Request) (*http.Response, error) {
	host := request.URL.Host
	ctx, cancel := context.WithCancelCause(request.Context())
	timer := time.AfterFunc(s.answer, func() { cancel(fmt.Errorf("no answer within %v", s.answer)) })
	response, err := s.next.RoundTrip(request.WithContext(ctx))
	timer.Stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && request.Context().Err() == nil {
			err = cause
		}
		cancel(nil)
		return nil, serverError{host, err}
	}
	response.Body = &answer{response.Body, host, func() { cancel(nil) }}
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport.
func (s *servers) WrappedRoundTripper() http.RoundTripper { return s.next }

// answer is the body of an answer, with errors that name the server.
type answer struct {
	io.ReadCloser
	host string
	done func()
}

// Read leaves the ends as they are, because the decoder of a watch looks for them.
func (a *answer) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		err = serverError{a.host, err}
	}
	return n, err
}

// Close ends the answer.
func (a *answer) Close() error {
	a.done()
	return a.ReadCloser.Close()
}

// serverError names the server and leaves out what differs each time, so that one
// trouble has one text.
type serverError struct {
	host string
	err  error
}

func (e serverError) Error() string {
	if op, ok := errors.AsType[*net.OpError](e.err); ok {
		return fmt.Sprintf("%s: %s: %v", e.host, op.Op, op.Err)
	}
	return e.host + ": " + e.err.Error()
}

func (e serverError) Unwrap() error { return e.err }
