//go:build kernel

package packets

import (
	"net/netip"
	"sync"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

func TestStatement46LoadBalancer(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true})
	s.each(func(w way) {
		w.from(X).times(20).to(v.lb(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
	})
}

func TestStatement47ExternalLocalKeepsTheClient(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true, externalLocal: true})
	s.each(func(w way) {
		w.from(X).times(8).to(v.lb(w)).reach(L1).seen(w.addr(X))
	})
}

func TestStatement48ExternalLocalWithoutLocalDropsOutsiders(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(Rm), loadBalancer: true, external: true, nodePort: true, externalLocal: true})
	rm := s.sniff(Rm)
	s.each(func(w way) {
		before, all := rm.From(w.addr(X)), rm.To(w.proto, 8080)
		w.from(X).dropped(v.lb(w))
		w.from(X).dropped(v.ext(w))
		w.from(X).dropped(v.node(w, N))
		if got := rm.From(w.addr(X)) - before; got > 0 {
			w.Errorf("%d packets of X reached Rm", got)
		}
		if got := rm.To(w.proto, 8080) - all; got > 0 {
			w.Errorf("%d packets reached Rm", got)
		}
	})
}

func TestStatement49ExternalLocalWithoutLocalServesPods(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(Rm), loadBalancer: true, externalLocal: true})
	s.each(func(w way) {
		w.from(c1).times(4).to(v.lb(w)).reach(Rm).seen(w.addr(c1))
	})
}

func TestStatement50ExternalLocalPodsReachAll(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true, external: true, nodePort: true, externalLocal: true})
	s.each(func(w way) {
		w.from(c1).times(20).to(v.lb(w)).reach(L1, Rm).seen(w.addr(c1))
		w.from(c1).times(20).to(v.ext(w)).reach(L1, Rm).seen(w.addr(c1))
		w.from(c1).times(20).to(v.node(w, N)).reach(L1, Rm).seen(w.addr(c1))
	})
}

func TestStatement51ExternalLocalNodeProcessReachesAll(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true, external: true, nodePort: true, externalLocal: true})
	s.each(func(w way) {
		w.from(N).times(20).to(v.lb(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
		w.from(N).times(20).to(v.ext(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
		w.from(N).times(20).to(v.node(w, N)).reach(L1, Rm).seen(w.nodeAddrs()...)
	})
}

func TestStatement52ExternalLocalWithoutLocalServesNodeProcess(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(Rm), loadBalancer: true, external: true, nodePort: true, externalLocal: true})
	s.each(func(w way) {
		w.from(N).times(4).to(v.lb(w)).reach(Rm).seen(w.nodeAddrs()...)
		w.from(N).times(4).to(v.ext(w)).reach(Rm).seen(w.nodeAddrs()...)
		w.from(N).times(4).to(v.node(w, N)).reach(Rm).seen(w.nodeAddrs()...)
	})
}

func TestStatement53ExternalLocalNodePortOfEachNode(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), nodePort: true, externalLocal: true})
	s.each(func(w way) {
		w.from(X).times(4).to(v.node(w, N)).reach(L1).seen(w.addr(X))
		w.from(X).times(4).to(v.node(w, M)).reach(Rm).seen(w.addr(X))
	})
}

func TestStatement54ExternalLocalUsesServingEndpoint(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: []endpoint{{L1, isServing}}, loadBalancer: true, externalLocal: true})
	s.each(func(w way) {
		w.from(X).times(4).to(v.lb(w)).reach(L1).seen(w.addr(X))
	})
}

func TestStatement55PolicyIsSwitchedUnderTraffic(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true})
	s.each(func(w way) {
		w.from(X).times(8).to(v.lb(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
	})
	stop := s.traffic(v)
	v.externalLocal = true
	s.apply(v)
	s.each(func(w way) {
		w.from(X).times(8).to(v.lb(w)).reach(L1).seen(w.addr(X))
	})
	stop()
}

// traffic has X ask the load balancer address again and again, in both families, until
// the returned function is called, which wants every call to have been answered.
func (s *scene) traffic(v *service) (stop func()) {
	var to []netip.AddrPort
	for _, f := range testbed.Families() {
		to = append(to, v.at(v.lbIP(f)))
	}
	return s.keepAsking(X, to...)
}

// keepAsking asks frontends by TCP until the returned function is called, which wants
// every call to have been answered.
func (s *scene) keepAsking(from string, frontends ...netip.AddrPort) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	calls := 0
	var failed []probe.Result
	for _, to := range frontends {
		call := probe.Call{Protocol: TCP, To: to}
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(5 * time.Millisecond):
				}
				r := lab.Host(from).Probe.Do(call)
				mu.Lock()
				calls++
				if r.Outcome != probe.OK {
					failed = append(failed, r)
				}
				mu.Unlock()
			}
		})
	}
	return func() {
		s.Helper()
		close(done)
		wg.Wait()
		if len(failed) > 0 || calls == 0 {
			s.Errorf("%d of %d calls failed meanwhile: %v", len(failed), calls, failed)
		}
	}
}

func TestStatement56ExternalIP(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), external: true})
	s.each(func(w way) {
		w.from(X).times(8).to(v.ext(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
		w.from(c1).times(8).to(v.ext(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
	})
	v.externalLocal = true
	s.apply(v)
	s.each(func(w way) {
		w.from(X).times(8).to(v.ext(w)).reach(L1).seen(w.addr(X))
	})
}
