//go:build kernel

package packets

import "testing"

func TestStatement41InternalLocalReachesLocalOnly(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), internalLocal: true})
	s.each(func(w way) {
		w.from(c1).times(6).to(v.cluster(w)).reach(L1).seen(w.addr(c1))
		w.from(N).times(6).to(v.cluster(w)).reach(L1).seen(w.nodeAddrs()...)
	})
}

func TestStatement42InternalLocalWithoutLocalDrops(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(Rm), internalLocal: true})
	rm := s.sniff(Rm)
	s.each(func(w way) {
		before := rm.To(w.proto, 8080)
		w.from(c1).dropped(v.cluster(w))
		w.from(N).dropped(v.cluster(w))
		if got := rm.To(w.proto, 8080) - before; got > 0 {
			w.Errorf("%d packets reached Rm", got)
		}
	})
}

func TestStatement43InternalLocalDoesNotLeakByOtherFrontends(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(Rm), internalLocal: true, nodePort: true})
	rm := s.sniff(Rm)
	s.each(func(w way) {
		before := rm.To(w.proto, 8080)
		w.from(c1).dropped(v.cluster(w))
		if got := rm.To(w.proto, 8080) - before; got > 0 {
			w.Errorf("%d packets reached Rm", got)
		}
		w.from(c1).times(3).to(v.node(w, N)).reach(Rm)
	})
}

func TestStatement44InternalLocalUsesServingEndpoint(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: []endpoint{{L1, isServing}, {Rm, isReady}}, internalLocal: true})
	s.each(func(w way) { w.from(c1).times(6).to(v.cluster(w)).reach(L1) })
}

func TestStatement45InternalLocalLeavesExternalTraffic(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), internalLocal: true, nodePort: true, loadBalancer: true, external: true})
	s.each(func(w way) {
		w.from(X).times(6).to(v.node(w, N)).reach(L1, Rm).seen(w.nodeAddrs()...)
		w.from(X).times(6).to(v.lb(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
		w.from(X).times(6).to(v.ext(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
	})
}
