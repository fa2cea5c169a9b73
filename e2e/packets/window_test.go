//go:build kernel

package packets

import (
	"net/netip"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/probe"
)

// outOfWindow sends the client of a stream, from its endpoint's own address, a segment
// that conntrack takes for none of the connection. The client knows nothing of that
// address, and would reset what its kernel takes it for
// (kubernetes/kubernetes#74839).
func (w way) outOfWindow(stream *probe.Stream) {
	w.Helper()
	next, expected, err := stream.Sequences()
	if err == nil {
		server := netip.AddrPortFrom(w.addr(stream.First.Who), 8080)
		err = lab.Host(stream.First.Who).Forge(probe.Segment{From: server, To: stream.First.Source, Seq: expected + 1<<30, Ack: next})
	}
	if err != nil {
		w.Fatal(err)
	}
}

func TestStatement98OutOfWindowPacketsResetNothing(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1)}) // no other node is on the way
	s.eachTCP(func(w way) {
		stream := s.hold(c1, v.cluster(w))
		w.alive(stream)
		c := s.sniff(c1)
		w.outOfWindow(stream)
		w.alive(stream)
		if n := c.From(w.addr(L1)); n > 0 {
			w.Errorf("%d packets of the endpoint's own address reached the client", n)
		}
	})
	// Without the rule it does harm: the packet is what it should be.
	s.stop()
	s.eachTCP(func(w way) {
		s.run(iptables(w.f), "-D", "KUBE-FORWARD", "-m", "conntrack", "--ctstate", "INVALID", "-j", "DROP")
		stream := s.hold(c1, v.cluster(w))
		w.alive(stream)
		w.outOfWindow(stream)
		w.eventually("a reset", func() bool { return stream.Alive(time.Second) != nil })
	})
}
