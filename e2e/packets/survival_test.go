//go:build kernel

package packets

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// alive wants a stream to work.
func (w way) alive(stream *probe.Stream) {
	w.Helper()
	if err := stream.Alive(2 * time.Second); err != nil {
		w.Error(err)
	}
}

// streamToL1 opens streams from c1 until one leads to L1, which it keeps.
func (s *scene) streamToL1(to netip.AddrPort) *probe.Stream {
	s.Helper()
	for range 10 {
		if stream := s.hold(c1, to); stream.First.Who == L1 {
			return stream
		}
	}
	s.Fatalf("none of 10 streams from c1 to %v led to L1", to)
	return nil
}

// streams holds one stream for each family from c1 by the ClusterIP to L1.
func (s *scene) streams(v *service) map[testbed.Family]*probe.Stream {
	s.Helper()
	held := map[testbed.Family]*probe.Stream{}
	for _, f := range testbed.Families() {
		held[f] = s.streamToL1(v.at(v.clusterIP(f)))
	}
	return held
}

func TestStatement87StreamOutlivesItsEndpoint(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	held := s.streams(v)
	v.endpoints = ready(Rm)
	s.apply(v)
	s.eachTCP(func(w way) {
		w.alive(held[w.f])
		w.from(c1).times(8).to(v.cluster(w)).reach(Rm)
		w.alive(held[w.f])
		if weight := w.weight(v.cluster(w), netip.AddrPortFrom(w.addr(L1), 8080)); weight != "0" {
			w.Errorf("weight of L1 is %q, want 0", weight)
		}
	})
}

// weight is what ipvsadm shows on N; empty if there is no such real server.
func (w way) weight(server, real netip.AddrPort) string {
	w.Helper()
	kind := map[probe.Protocol]string{TCP: "-t", UDP: "-u"}[w.proto]
	out, err := lab.Host(N).Exec(context.Background(), "ipvsadm", "-Ln", kind, server.String())
	if err != nil {
		w.Fatal(err)
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) >= 4 && f[0] == "->" && f[1] == real.String() {
			return f[3]
		}
	}
	return ""
}

// flow asks by UDP from one port of c1, always the same.
func (w way) flow(v *service) probe.Result {
	from := netip.AddrPortFrom(w.addr(c1), uint16(20000+v.number))
	return lab.Host(c1).Probe.Do(probe.Call{Protocol: UDP, From: from, To: v.at(v.clusterIP(w.f))})
}

func (s *scene) eachUDP(test func(w way)) { s.by([]probe.Protocol{UDP}, test) }

func TestStatement89UDPFlowLeavesARemovedEndpoint(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	s.eachUDP(func(w way) {
		before := w.flow(v)
		if again := w.flow(v); before.Outcome != probe.OK || again.Who != before.Who {
			w.Fatalf("not a flow: %v, then %v", before, again)
		}
		v.endpoints = ready(without([]string{L1, Rm}, before.Who)...)
		s.apply(v)
		if after := w.flow(v); after.Outcome != probe.OK || after.Who == before.Who {
			w.Errorf("was at %s, then: %v", before.Who, after)
		}
		v.endpoints = ready(L1, Rm)
		s.apply(v)
	})
}

func TestStatement90UDPFlowOfAnEmptyServiceIsCut(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1)})
	s.eachUDP(func(w way) {
		if r := w.flow(v); r.Outcome != probe.OK {
			w.Fatal(r)
		}
	})
	l1 := s.sniff(L1)
	v.endpoints = nil
	s.apply(v)
	s.eachUDP(func(w way) {
		before := l1.To(UDP, 8080)
		if r := w.flow(v); r.Outcome != probe.Refused {
			w.Errorf("got %v, want refused", r)
		}
		if got := l1.To(UDP, 8080) - before; got > 0 {
			w.Errorf("%d packets reached L1", got)
		}
	})
}

func TestStatement91UDPFlowStaysAtAServingEndpoint(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1)})
	s.eachUDP(func(w way) {
		if r := w.flow(v); r.Outcome != probe.OK {
			w.Fatal(r)
		}
	})
	v.endpoints = []endpoint{{L1, isServing}}
	s.apply(v)
	s.eachUDP(func(w way) {
		if r := w.flow(v); r.Outcome != probe.OK || r.Who != L1 {
			w.Errorf("got %v, want L1", r)
		}
	})
}

func TestStatement93StreamOutlivesAnUnreadyMoment(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	held := s.streams(v)
	for _, now := range []state{isUnready, isReady} {
		v.endpoints = []endpoint{{L1, now}, {Rm, isReady}}
		s.apply(v)
		s.eachTCP(func(w way) { w.alive(held[w.f]) })
	}
	s.eachTCP(func(w way) { w.from(c1).times(6).to(v.cluster(w)).reach(L1, Rm) })
}

func TestStatement94StreamOutlivesItsService(t *testing.T) {
	s := begin(t)
	s.service(service{endpoints: ready(L1)}) // not the last one: that would be another way
	v := s.service(service{endpoints: ready(L1)})
	held := s.streams(v)
	s.remove(v)
	s.eachTCP(func(w way) {
		w.alive(held[w.f])
		w.from(c1).unserved(v.cluster(w))
		w.alive(held[w.f])
	})
}

func TestStatement96TrafficGoesOnWithoutTheProxy(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true})
	held := s.streams(v)
	stop := s.traffic(v)
	if err := lab.Proxy(N).Kill(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.each(func(w way) { w.from(c1).times(8).to(v.cluster(w)).reach(L1, Rm) })
	s.eachTCP(func(w way) { w.alive(held[w.f]) })
	if err := lab.Proxy(N).Start(); err != nil {
		t.Fatal(err)
	}
	s.settle()
	s.eachTCP(func(w way) { w.alive(held[w.f]) })
	stop()
}

func TestStatement97RestartBreaksNothing(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true, nodePort: true, externalLocal: true})
	held := s.streams(v)
	stop := s.traffic(v)
	if err := lab.Restart(context.Background(), N); err != nil {
		t.Fatal(err)
	}
	s.eachTCP(func(w way) { w.alive(held[w.f]) })
	stop()
	s.each(func(w way) { w.from(c1).times(8).to(v.cluster(w)).reach(L1, Rm) })
}
