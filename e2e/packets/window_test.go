//go:build kernel

package packets

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

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

// TestStatement98: what conntrack takes for no packet of the connection is dropped on its
// way. Without that rule IPVS would translate it, other than iptables' DNAT, so that no
// rule's absence can be shown by a reset; what is shown is that nothing came by.
func TestStatement98OutOfWindowPacketsResetNothing(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1)}) // no other node is on the way
	s.eachTCP(func(w way) {
		stream := s.hold(c1, v.cluster(w))
		w.alive(stream)
		c := s.sniff(c1)
		dropped := s.dropsOfInvalid(w)
		w.outOfWindow(stream)
		w.eventually("a drop", func() bool { return s.dropsOfInvalid(w) > dropped })
		w.alive(stream)
		if n := c.From(w.addr(L1)); n > 0 {
			w.Errorf("%d packets of the endpoint's own address reached the client", n)
		}
	})
}

// dropsOfInvalid is how many packets the rule on node-1 has dropped.
func (s *scene) dropsOfInvalid(w way) int {
	s.Helper()
	for line := range strings.Lines(s.run(iptables(w.f), "-L", "KUBE-FORWARD", "-nvx")) {
		if f := strings.Fields(line); strings.Contains(line, "INVALID") && len(f) > 0 {
			n, err := strconv.Atoi(f[0])
			if err != nil {
				s.Fatal(err)
			}
			return n
		}
	}
	s.Fatal("no rule drops INVALID packets")
	return 0
}
