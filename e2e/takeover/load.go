package takeover

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// Kind is what a loop does again and again.
type Kind string

// The kinds. A flow is UDP from one port, always the same; a stream is one TCP connection
// over which lines go to and fro.
const (
	Connects  Kind = "TCP connections"
	Datagrams Kind = "UDP, new ports"
	Flows     Kind = "UDP, one port"
	Streams   Kind = "TCP streams"
)

// Kinds lists all of them.
func Kinds() []Kind { return []Kind{Connects, Datagrams, Flows, Streams} }

// Frontend is where a loop asks, by TCP and by UDP.
type Frontend struct {
	Name string
	At   netip.AddrPort
	// Reach are the pods that may answer; another answer is a wrong one.
	Reach []string
}

// Loop is one client that asks one frontend, one request after the other.
type Loop struct {
	Client   *testbed.Host
	Kind     Kind
	Frontend Frontend
	// Port is the client's port of a flow.
	Port uint16

	stream *probe.Stream
	events []event
}

// String names the loop in what a test says.
func (l *Loop) String() string {
	return fmt.Sprintf("%s from %s to %s %v", l.Kind, l.Client.Name(), l.Frontend.Name, l.Frontend.At)
}

// event is the end of one request.
type event struct {
	began   time.Time
	took    time.Duration
	problem string // empty: it was answered, and by the right one
}

// Pauses and limits. A connection may lose its first packet twice; a datagram that is
// lost is lost. All are long, since the machine may be an emulated one: on a busy host
// answers come that were under way for five seconds.
const (
	pause        = time.Second
	connectLimit = 15 * time.Second
	answerLimit  = 10 * time.Second
	streamLimit  = 30 * time.Second
)

// Load is a number of loops that run.
type Load struct {
	mu    sync.Mutex // of the loops' events
	loops []*Loop
	stop  chan struct{}
	once  sync.Once // closes stop
	done  sync.WaitGroup
}

// Start opens the streams and lets all loops run until Stop. A stream that cannot be
// opened is an error.
func Start(loops []*Loop) (*Load, error) {
	l := &Load{loops: loops, stop: make(chan struct{})}
	for _, loop := range loops {
		if loop.Kind != Streams {
			continue
		}
		var err error
		if loop.stream, err = loop.Client.Hold(probe.Call{Protocol: probe.TCP, To: loop.Frontend.At, Timeout: connectLimit}); err != nil {
			l.closeStreams()
			return nil, fmt.Errorf("%v: %w", loop, err)
		}
	}
	for i, loop := range loops {
		// Not all at the same moment.
		first := pause * time.Duration(i) / time.Duration(len(loops))
		l.done.Go(func() { l.run(loop, first) })
	}
	return l, nil
}

// Stop ends the loops after their present request, and the streams; twice is once.
func (l *Load) Stop() {
	l.once.Do(func() { close(l.stop) })
	l.done.Wait()
	l.closeStreams()
}

func (l *Load) closeStreams() {
	for _, loop := range l.loops {
		if loop.stream != nil {
			_ = loop.stream.Close() // it may be broken
		}
	}
}

// run asks until Stop; a stream only until it breaks.
func (l *Load) run(loop *Loop, first time.Duration) {
	for wait := first; ; wait = pause {
		select {
		case <-l.stop:
			return
		case <-time.After(wait):
		}
		e := event{began: time.Now()}
		e.problem = loop.ask()
		e.took = time.Since(e.began)
		l.mu.Lock()
		loop.events = append(loop.events, e)
		l.mu.Unlock()
		if e.problem != "" && loop.Kind == Streams {
			return
		}
	}
}

// ask makes one request and says what was wrong with it.
func (l *Loop) ask() (problem string) {
	if l.Kind == Streams {
		if err := l.stream.Alive(streamLimit); err != nil {
			return "broken: " + err.Error()
		}
		return ""
	}
	call := probe.Call{Protocol: probe.UDP, To: l.Frontend.At, Timeout: answerLimit}
	switch l.Kind {
	case Connects:
		call.Protocol, call.Timeout = probe.TCP, connectLimit
	case Flows:
		unspecified := netip.IPv6Unspecified()
		if l.Frontend.At.Addr().Is4() {
			unspecified = netip.IPv4Unspecified()
		}
		call.From = netip.AddrPortFrom(unspecified, l.Port)
	}
	r := l.Client.Probe.Do(call)
	switch {
	case r.Outcome != probe.OK:
		return string(r.Outcome)
	case !slices.Contains(l.Frontend.Reach, r.Who):
		return "answered by " + r.Who
	}
	return ""
}
