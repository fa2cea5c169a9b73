//go:build kernel

package packets

import (
	"fmt"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/probe"
)

const threeHours = 10800 * time.Second

// pin asks n times and returns the one host that answered all. Connections that a
// new client opens at the same moment on several CPUs may each be its first to the
// kernel: so it asks in turn.
func (c caller) pin(n int, v *service) string {
	c.Helper()
	return c.times(n).inTurn().to(v.cluster(c.way)).one()
}

// one wants a single host to have answered all calls, and names it.
func (a answers) one() string {
	a.Helper()
	for _, r := range a.results {
		if r.Outcome != probe.OK || r.Who != a.results[0].Who {
			a.fail("want one endpoint for all")
			return ""
		}
	}
	return a.results[0].Who
}

func TestStatement81AffinityPinsAClient(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, L2, Rm), affinity: threeHours})
	s.each(func(w way) {
		w.from(c1).pin(20, v)
		w.from(X).pin(20, v)
	})
}

func TestStatement82AffinityEnds(t *testing.T) {
	s := begin(t)
	// The kernel keeps a pin as long as connections of it are remembered: 300 s
	// for UDP, unless told otherwise.
	s.run("ipvsadm", "--set", "0", "0", "2")
	t.Cleanup(func() { s.run("ipvsadm", "--set", "0", "0", "300") })
	v := s.service(service{endpoints: ready(L1, Rm), affinity: 10 * time.Second})
	clients := []string{c1, L2, X}
	first := map[string]string{}
	s.by([]probe.Protocol{UDP}, func(w way) {
		for _, c := range clients {
			first[fmt.Sprint(w.f, c)] = w.from(c).pin(3, v)
		}
	})
	time.Sleep(15 * time.Second)
	// Round robin gives the first client of the second turn what the fourth of
	// the first turn would have got: another endpoint than before.
	s.by([]probe.Protocol{UDP}, func(w way) {
		moved := 0
		for _, c := range clients {
			if w.from(c).pin(3, v) != first[fmt.Sprint(w.f, c)] {
				moved++
			}
		}
		if moved == 0 {
			w.Errorf("all of %v are at the endpoints of before", clients)
		}
	})
}

func TestStatement83AffinityLeavesAnUnreadyEndpoint(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, L2, Rm), affinity: threeHours})
	s.each(func(w way) {
		before := w.from(c1).pin(4, v)
		v.endpoints = ready(without([]string{L1, L2, Rm}, before)...)
		v.endpoints = append(v.endpoints, endpoint{before, isUnready})
		s.apply(v)
		after := w.from(c1).pin(1, v)
		if after == before {
			w.Errorf("still at %s, which is not ready", before)
		}
		if stays := w.from(c1).pin(6, v); stays != after {
			w.Errorf("moved from %s to %s", after, stays)
		}
		v.endpoints = ready(L1, L2, Rm)
		s.apply(v)
	})
}

func TestStatement84AffinityIsSwitchedOff(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), affinity: threeHours})
	s.each(func(w way) { w.from(c1).pin(6, v) })
	v.affinity = 0
	s.apply(v)
	s.each(func(w way) { w.from(X).times(8).to(v.cluster(w)).reach(L1, Rm) })
}

func TestStatement85AffinityWithExternalLocal(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, L2, Rm), loadBalancer: true, externalLocal: true, affinity: threeHours})
	s.each(func(w way) {
		if who := w.from(X).times(12).inTurn().to(v.lb(w)).seen(w.addr(X)).one(); who == Rm {
			w.Error("pinned to an endpoint that is not local")
		}
	})
}
