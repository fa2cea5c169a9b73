// Package forward serves TCP ports on loopback addresses by copying: IPVS cannot,
// since packets of a loopback address never leave the host. It knows nothing of
// Services but their names.
package forward

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Target is where the connections of one address go, and for whom.
type Target struct {
	Service string // of messages
	To      netip.AddrPort
}

// Forwarder listens and forwards. Update says what is wanted and returns at once; Run
// does it.
type Forwarder struct {
	failed  func(service string, err error)
	changed chan struct{}
	// retry is the time between two tries to listen.
	retry time.Duration

	mu   sync.Mutex
	want map[netip.AddrPort]Target
}

// listenRetry is the time between two tries to listen at a port that is taken.
const listenRetry = 5 * time.Second

// New returns a Forwarder that serves nothing yet. Failed is told, once for each
// address as long as it lasts, that it cannot be listened at; it is tried again.
func New(failed func(service string, err error)) *Forwarder {
	return &Forwarder{failed: failed, changed: make(chan struct{}, 1), retry: listenRetry}
}

// Update says which addresses are served. One that is no longer among them is refused
// from then on; its open connections go on, as all streams of a Service do. A new target
// counts for new connections.
func (f *Forwarder) Update(want map[netip.AddrPort]Target) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if maps.Equal(f.want, want) {
		return
	}
	f.want = maps.Clone(want)
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

func (f *Forwarder) wanted() map[netip.AddrPort]Target {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.want
}

// Run serves until the context ends, and returns when all is closed.
func (f *Forwarder) Run(ctx context.Context) {
	r := running{f: f, open: map[netip.AddrPort]*listener{}, told: map[netip.AddrPort]bool{}}
	defer r.end()
	for {
		var retry <-chan time.Time
		if !r.match(ctx, f.wanted()) {
			retry = time.After(f.retry)
		}
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
		case <-retry:
		}
	}
}

// running is what Run holds.
type running struct {
	f    *Forwarder
	open map[netip.AddrPort]*listener
	told map[netip.AddrPort]bool
	work sync.WaitGroup
}

// match opens and closes until the listeners are those wanted; false: some could not
// be opened.
func (r *running) match(ctx context.Context, want map[netip.AddrPort]Target) bool {
	for at, l := range r.open {
		if _, ok := want[at]; !ok {
			l.close()
			delete(r.open, at)
		}
	}
	maps.DeleteFunc(r.told, func(at netip.AddrPort, _ bool) bool { _, ok := want[at]; return !ok })
	all := true
	for _, at := range slices.SortedFunc(maps.Keys(want), compareAddrPorts) {
		target := want[at]
		if l, ok := r.open[at]; ok {
			l.target.Store(&target)
			continue
		}
		if err := r.listen(ctx, at, target); err != nil {
			all = false
			if !r.told[at] && r.f.failed != nil {
				r.f.failed(target.Service, err)
			}
			r.told[at] = true
			continue
		}
		delete(r.told, at)
	}
	return all
}

func (r *running) listen(ctx context.Context, at netip.AddrPort, target Target) error {
	socket, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(at))
	if err != nil {
		return fmt.Errorf("NodePort of Service %s on a loopback address: %w", target.Service, err)
	}
	l := &listener{socket: socket, closed: make(chan struct{}), slots: make(chan struct{}, maxConnections)}
	l.target.Store(&target)
	r.open[at] = l
	r.work.Go(func() { l.serve(ctx, &r.work) })
	return nil
}

func (r *running) end() {
	for _, l := range r.open {
		l.close()
	}
	r.work.Wait()
}

// maxConnections bounds the open connections of one address; those beyond wait until
// the kernel's queue is full.
const maxConnections = 512

// acceptPause is the time after an accept that failed, for want of descriptors, say.
const acceptPause = 100 * time.Millisecond

// listener is one address that is served.
type listener struct {
	socket *net.TCPListener
	target atomic.Pointer[Target]
	slots  chan struct{}
	closed chan struct{}
}

func (l *listener) close() {
	close(l.closed)
	_ = l.socket.Close()
}

func (l *listener) serve(ctx context.Context, work *sync.WaitGroup) {
	for {
		select {
		case <-l.closed:
			return
		case l.slots <- struct{}{}:
		}
		client, err := l.socket.AcceptTCP()
		if err == nil {
			work.Go(func() {
				defer func() { <-l.slots }()
				forward(ctx, client, l.target.Load().To)
			})
			continue
		}
		<-l.slots
		if errors.Is(err, net.ErrClosed) {
			return
		}
		select {
		case <-l.closed:
			return
		case <-time.After(acceptPause):
		}
	}
}

// dialLimit is how long the way to the Service may take.
const dialLimit = 5 * time.Second

// forward joins a client with the Service until both directions have ended, or ctx.
// A Service that does not answer resets the client, since the refusal comes too late.
func forward(ctx context.Context, client *net.TCPConn, to netip.AddrPort) {
	dialer := net.Dialer{Timeout: dialLimit}
	server, err := dialer.DialTCP(ctx, "tcp", netip.AddrPort{}, to)
	if err != nil {
		reset(client)
		return
	}
	stop := context.AfterFunc(ctx, func() { reset(client); reset(server) })
	defer stop()
	var both sync.WaitGroup
	both.Go(func() { oneWay(server, client) })
	both.Go(func() { oneWay(client, server) })
	both.Wait()
	_ = client.Close()
	_ = server.Close()
}

// oneWay copies until the end of from, and says that end to to, which may go on
// talking. An error on either side resets both, so that the other direction ends too.
func oneWay(to, from *net.TCPConn) {
	_, err := to.ReadFrom(from)
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil && !errors.Is(err, syscall.ENOTCONN) {
		reset(to)
		reset(from)
	}
}

// reset closes a connection so that the peer does not take it for a good end.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}

func compareAddrPorts(a, b netip.AddrPort) int {
	return cmp.Or(cmp.Compare(a.Port(), b.Port()), a.Addr().Compare(b.Addr()))
}
