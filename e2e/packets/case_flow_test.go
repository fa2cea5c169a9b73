//go:build kernel

package packets

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// Field reports about draining, affinity and flows that go on.

// TestCaseD1StreamOutlivesAnEndThatServes (kubernetes/kubernetes#57841): an endpoint that
// terminates and serves keeps its streams, new ones go elsewhere.
func TestCaseD1StreamOutlivesAnEndThatServes(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	held := s.streams(v)
	v.endpoints = []endpoint{{L1, isServing}, {Rm, isReady}}
	s.apply(v)
	for range 5 {
		s.eachTCP(func(w way) {
			w.alive(held[w.f])
			w.from(c1).times(4).to(v.cluster(w)).reach(Rm)
		})
	}
}

// TestCaseD5ClientComesAgainFromItsPort (kubernetes/kubernetes#70747): the first packet of
// a connection from a port whose last one ended a moment ago is not lost.
func TestCaseD5ClientComesAgainFromItsPort(t *testing.T) {
	s := begin(t)
	const port, times = 7072, 5
	v := s.service(service{endpoints: ready(L1), ports: []servicePort{{"tcp", TCP, 80, port}}})
	s.eachTCP(func(w way) {
		w.endAtOnce(L1, netip.AddrPortFrom(w.addr(L1), port))
		var took []time.Duration
		for range times {
			took = append(took, w.readToTheEnd(c1, netip.AddrPortFrom(w.addr(c1), 23480), v.cluster(w)))
		}
		// Each but the first is such a one; an emulated machine may be held up once.
		if slices.Sort(took); took[times/2] > atOnce {
			w.Errorf("connections from one port took %v", took)
		}
	})
}

// endAtOnce ends every connection to a host at once, so that it is the server that
// remembers it, and the client may take its port again.
func (w way) endAtOnce(host string, at netip.AddrPort) {
	w.Helper()
	var l net.Listener
	err := lab.Host(host).Do(func() (err error) {
		l, err = net.Listen("tcp", at.String())
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = l.Close() })
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_ = conn.Close()
		}
	}()
}

// readToTheEnd connects, waits for the server to end the connection and tells how long
// the connecting took.
func (w way) readToTheEnd(host string, from, to netip.AddrPort) time.Duration {
	w.Helper()
	var conn net.Conn
	var began time.Time
	err := error(unix.EADDRINUSE)
	for wait := time.Now().Add(5 * time.Second); errors.Is(err, unix.EADDRINUSE) && time.Now().Before(wait); {
		began = time.Now() // the last one may not have ended to the client's kernel
		err = lab.Host(host).Do(func() (err error) {
			d := net.Dialer{LocalAddr: net.TCPAddrFromAddrPort(from), Timeout: 5 * time.Second}
			conn, err = d.Dial("tcp", to.String())
			return err
		})
	}
	took := time.Since(began)
	if err != nil {
		w.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		w.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 1)); n > 0 || err == nil {
		w.Fatalf("the server sent something")
	}
	if err := conn.Close(); err != nil {
		w.Fatal(err)
	}
	return took
}

// TestCaseD6AndD7UDPFlowsOfAnEndpointThatWent (kubernetes/kubernetes#71514, #76664): many
// flows, and one that never stops, are at the other endpoint at once.
func TestCaseD6AndD7UDPFlowsOfAnEndpointThatWent(t *testing.T) {
	const flows = 40
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	ask := func(f testbed.Family, n int) probe.Result {
		from := netip.AddrPortFrom(lab.Host(c1).Addr(f), uint16(24000+n))
		return lab.Host(c1).Probe.Do(probe.Call{Protocol: UDP, From: from, To: v.at(v.clusterIP(f))})
	}
	s.eachUDP(func(w way) {
		at := map[string]int{}
		for n := range flows {
			at[ask(w.f, n).Who]++
		}
		if at[L1] == 0 || at[Rm] == 0 || at[L1]+at[Rm] != flows {
			w.Fatalf("flows are at %v", at)
		}
		stop := make(chan struct{})
		var lost []probe.Result
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(50 * time.Millisecond):
				}
				if r := ask(w.f, flows); r.Outcome != probe.OK {
					lost = append(lost, r)
				}
			}
		})
		v.endpoints = ready(Rm)
		s.apply(v)
		for n := range flows {
			if r := ask(w.f, n); r.Outcome != probe.OK || r.Who != Rm {
				w.Errorf("flow %d: %v", n, r)
			}
		}
		close(stop)
		wg.Wait()
		if len(lost) > 1 {
			w.Errorf("the flow that does not stop lost %v", lost)
		}
		v.endpoints = ready(L1, Rm)
		s.apply(v)
	})
}

// quietPort is where a pod takes datagrams and never answers.
const quietPort = 5140

// shout sends datagrams to a frontend from one port of a host until the test ends.
func (w way) shout(from string, to netip.AddrPort) {
	w.Helper()
	var conn net.Conn
	err := lab.Host(from).Do(func() (err error) {
		conn, err = net.Dial("udp", to.String())
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	done := make(chan struct{})
	w.Cleanup(func() { close(done) })
	go func() {
		defer func() { _ = conn.Close() }()
		for {
			select {
			case <-done:
				return
			case <-time.After(20 * time.Millisecond):
				_, _ = conn.Write([]byte("x")) // an error tells of an earlier one: the next may pass
			}
		}
	}()
}

// TestCaseD8AndD9UDPWithoutAnyEndpoint (kubernetes/kubernetes#139628, #141371): senders
// that never wait for an answer do not reach a pod that the Service has no more, be it
// scaled to nothing or deleted, by ClusterIP and by NodePort.
func TestCaseD8AndD9UDPWithoutAnyEndpoint(t *testing.T) {
	for _, gone := range []string{"scaled", "deleted"} {
		t.Run(gone, func(t *testing.T) {
			s := begin(t)
			s.eachUDP(func(w way) { w.listenQuietly(L2) })
			v := s.service(service{endpoints: ready(L2), nodePort: true, ports: []servicePort{{"udp", UDP, 8125, quietPort}}})
			l2 := s.sniff(L2)
			arrives := func(within time.Duration) int {
				before := l2.To(UDP, quietPort)
				time.Sleep(within)
				return l2.To(UDP, quietPort) - before
			}
			for _, f := range testbed.Families() {
				w := way{t, f, UDP}
				w.shout(c1, v.cluster(w))
				w.shout(X, v.node(w, N))
			}
			way{t, IPv4, UDP}.eventually("datagrams arrive", func() bool { return arrives(50*time.Millisecond) > 0 })
			if gone == "deleted" {
				s.remove(v)
			} else {
				v.endpoints = nil
				s.apply(v)
			}
			arrives(200 * time.Millisecond) // what was under way
			if n := arrives(time.Second); n > 0 {
				t.Errorf("%d datagrams in a second", n)
			}
		})
	}
}

// listenQuietly takes datagrams of a family and answers none.
func (w way) listenQuietly(host string) {
	w.Helper()
	var c net.PacketConn
	err := lab.Host(host).Do(func() (err error) {
		c, err = net.ListenPacket("udp", netip.AddrPortFrom(w.addr(host), quietPort).String())
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = c.Close() })
}

// TestCaseD10FlowsThatPassThrough (kubernetes/kubernetes#129982): a UDP Service changes and
// a flow to another host's port with the number of its NodePort is left alone.
func TestCaseD10FlowsThatPassThrough(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), nodePort: true})
	s.eachUDP(func(w way) {
		// X is no node: the flow goes through N, which only remembers it.
		s.serve(X, UDP, v.node(w, X))
		w.from(c1).to(v.node(w, X)).reach(X)
		w.from(c1).times(4).to(v.node(w, N)).reach(L1, Rm)
	})
	tracked := func() (through, to int) {
		for _, f := range []string{"ipv4", "ipv6"} {
			out := s.run("conntrack", "-L", "-f", f, "-p", "udp", "--orig-port-dst", strconv.Itoa(int(v.nodePortOf(80))))
			for _, a := range testbed.Families() {
				through += strings.Count(out, "dst="+lab.Host(X).Addr(a).String()+" ")
				to += strings.Count(out, "dst="+lab.Host(N).Addr(a).String()+" sport")
			}
		}
		return through, to
	}
	throughBefore, before := tracked()
	v.endpoints = nil
	s.apply(v)
	through, after := tracked()
	if throughBefore == 0 || before == 0 || through != throughBefore || after != 0 {
		t.Errorf("through the node %d flows, then %d; to its NodePort %d, then %d, want none", throughBefore, through, before, after)
	}
}

// TestCaseD12StreamsOutliveManyFlips (kubernetes/kubernetes#117205): an endpoint that comes
// and goes keeps its streams.
func TestCaseD12StreamsOutliveManyFlips(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	held := s.streams(v)
	for range 10 {
		for _, now := range []state{isUnready, isReady} {
			v.endpoints = []endpoint{{L1, now}, {Rm, isReady}}
			s.apply(v)
			for _, f := range testbed.Families() {
				way{t, f, TCP}.alive(held[f])
			}
		}
	}
}

// TestCaseD18IdleLimits (kubernetes/kubernetes#84041): IPVS keeps an idle connection as
// long as conntrack.
func TestCaseD18IdleLimits(t *testing.T) {
	s := begin(t)
	conntrack := s.sysctl("net/netfilter/nf_conntrack_tcp_timeout_established")
	if tcp, _ := s.idleLimits(); tcp < conntrack {
		t.Errorf("IPVS forgets idle connections after %d s, conntrack after %d", tcp, conntrack)
	}
}
