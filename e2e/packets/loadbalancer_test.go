//go:build kernel

package packets

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

func TestStatement58ProxyModeAddressIsRouted(t *testing.T) {
	s := begin(t)
	proxyMode := corev1.LoadBalancerIPModeProxy
	v := s.service(service{endpoints: ready(L1), loadBalancer: true, change: func(o *corev1.Service) {
		for i := range o.Status.LoadBalancer.Ingress {
			o.Status.LoadBalancer.Ingress[i].IPMode = &proxyMode
		}
	}})
	// The load balancer is the client, and N knows the way.
	s.each(func(w way) {
		lb := v.lb(w)
		if w.proto == TCP {
			if err := lab.Host(X).AddAddr("lo", lb.Addr(), lb.Addr().BitLen()); err != nil {
				w.Fatal(err)
			}
			if err := lab.Host(N).Route(netip.PrefixFrom(lb.Addr(), lb.Addr().BitLen()), "eth0", w.addr(X)); err != nil {
				w.Fatal(err)
			}
		}
		s.serve(X, w.proto, lb)
		w.from(c1).times(3).to(lb).reach(X).seen(w.addr(c1))
		w.from(N).times(3).to(lb).reach(X).seen(w.nodeAddrs()...)
	})
}

func TestStatement59VIPModeAddressIsServedByTheNode(t *testing.T) {
	s := begin(t)
	vip := corev1.LoadBalancerIPModeVIP
	v := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true, change: func(o *corev1.Service) {
		o.Status.LoadBalancer.Ingress[0].IPMode = &vip // the other family's says nothing
	}})
	s.each(func(w way) { w.from(c1).times(8).to(v.lb(w)).reach(L1, Rm) })
}

func TestStatement60HostnameAloneIsNotServed(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1), loadBalancer: true, change: func(o *corev1.Service) {
		o.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{Hostname: "lb.example.org"}}
	}})
	s.each(func(w way) {
		w.from(c1).to(v.cluster(w)).reach(L1)
		w.from(c1).unserved(v.lb(w))
	})
}

// ranges is a Service with load balancer source ranges.
func ranges(list ...string) service {
	return service{endpoints: ready(L1, Rm), loadBalancer: true, nodePort: true, change: func(o *corev1.Service) {
		o.Spec.LoadBalancerSourceRanges = list
	}}
}

func TestStatement61SourceRangesOfPods(t *testing.T) {
	s := begin(t)
	v := s.service(ranges("10.244.0.0/16", "fd44::/48"))
	s.each(func(w way) {
		w.from(c1).times(6).to(v.lb(w)).reach(L1, Rm)
		w.from(X).dropped(v.lb(w))
		w.from(X).times(6).to(v.node(w, N)).reach(L1, Rm)
	})
}

func TestStatement62SourceRangeOfOneAddressNeverDrops(t *testing.T) {
	s := begin(t)
	s.flags("--ipvs-sync-period", "1s")
	v := s.service(ranges("172.30.0.5/32", "fd30::5/128"))
	stop := s.traffic(v)
	time.Sleep(5 * time.Second)
	stop()
}

func TestStatement63SourceRangesHoldForNodeProcesses(t *testing.T) {
	s := begin(t)
	v := s.service(ranges("172.30.0.5/32", "fd30::5/128"))
	s.each(func(w way) {
		w.from(X).times(6).to(v.lb(w)).reach(L1, Rm)
		w.from(N).dropped(v.lb(w))
		w.from(N).bound(w.addr(N)).dropped(v.lb(w))
	})
}

func TestStatement64SourceRangesWithTheNode(t *testing.T) {
	s := begin(t)
	v := s.service(ranges("172.30.0.2/32", "fd30::2/128"))
	s.each(func(w way) {
		w.from(N).times(6).to(v.lb(w)).reach(L1, Rm)
		w.from(N).bound(w.addr(N)).times(6).to(v.lb(w)).reach(L1, Rm)
		w.from(X).dropped(v.lb(w))
	})
}

func TestStatement65SourceRangesAreTrimmedAndMasked(t *testing.T) {
	s := begin(t)
	v := s.service(ranges("  172.30.0.77/24 ", " fd30::77/64"))
	s.each(func(w way) {
		w.from(X).times(6).to(v.lb(w)).reach(L1, Rm)
		w.from(c1).dropped(v.lb(w))
	})
}

func TestStatement66EmptyPrefixOpensItsFamily(t *testing.T) {
	s := begin(t)
	v := s.service(ranges("10.9.0.0/16", "0.0.0.0/0", "fd09::/64", "::/0"))
	s.each(func(w way) { w.from(X).times(6).to(v.lb(w)).reach(L1, Rm) })
}

func TestStatement67SourceRangesOfOneFamily(t *testing.T) {
	s := begin(t)
	v := s.service(ranges("fd09::/64"))
	s.each(func(w way) {
		if w.f == IPv4 {
			w.from(X).times(6).to(v.lb(w)).reach(L1, Rm)
			return
		}
		w.from(X).dropped(v.lb(w))
	})
}

func TestStatement68ShrinkingSourceRangesSparesStreams(t *testing.T) {
	s := begin(t)
	v := s.service(ranges("172.30.0.0/24", "fd30::/64"))
	streams := map[testbed.Family]*probe.Stream{}
	s.eachTCP(func(w way) { streams[w.f] = s.hold(X, v.lb(w)) })
	v.change = ranges("10.244.0.0/16", "fd44::/48").change
	s.apply(v)
	s.each(func(w way) { w.from(X).dropped(v.lb(w)) })
	for f, stream := range streams {
		if err := stream.Alive(2 * time.Second); err != nil {
			t.Errorf("%v: %v", f, err)
		}
	}
}

// hold opens a stream for the rest of the test.
func (s *scene) hold(from string, to netip.AddrPort) *probe.Stream {
	s.Helper()
	stream, err := lab.Host(from).Hold(probe.Call{Protocol: TCP, To: to})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = stream.Close() })
	return stream
}

func TestStatement69LoadBalancerAddressIsTheNodes(t *testing.T) {
	s := begin(t)
	s.eachTCP(func(w way) { s.serve(N, TCP, netip.AddrPortFrom(w.addr(N), 22)) })
	v := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true, nodePort: true, change: func(o *corev1.Service) {
		for i, f := range testbed.Families() {
			o.Status.LoadBalancer.Ingress[i].IP = lab.Host(N).Addr(f).String()
		}
	}})
	s.each(func(w way) {
		w.from(X).times(8).to(netip.AddrPortFrom(w.addr(N), 80)).reach(L1, Rm)
		w.from(X).times(8).to(v.node(w, N)).reach(L1, Rm)
		if w.proto == TCP {
			w.from(X).to(netip.AddrPortFrom(w.addr(N), 22)).reach(N)
			w.from(c1).to(netip.AddrPortFrom(w.addr(N), 22)).reach(N)
		}
	})
	s.remove(v) // N's address is not this Service's own
	s.each(func(w way) { w.from(X).to(netip.AddrPortFrom(w.addr(N), 80)).refused() })
}

func TestStatement70SharedLoadBalancerAddress(t *testing.T) {
	s := begin(t)
	first := s.service(service{endpoints: ready(L1), loadBalancer: true})
	second := service{endpoints: ready(Rm), loadBalancer: true, ports: []servicePort{{"tcp", TCP, 443, 8443}, {"udp", UDP, 443, 8443}}}
	second.change = func(o *corev1.Service) {
		for i, f := range testbed.Families() {
			o.Status.LoadBalancer.Ingress[i].IP = first.lbIP(f).String()
		}
	}
	other := s.service(second)
	s.each(func(w way) {
		for _, from := range []string{X, c1, N} {
			w.from(from).times(2).to(first.lb(w)).reach(L1)
			w.from(from).times(2).to(onPort(first.lb(w), 443)).reach(Rm)
		}
	})
	s.remove(other)
	s.each(func(w way) {
		for _, from := range []string{X, c1, N} {
			w.from(from).times(2).to(first.lb(w)).reach(L1)
			w.from(from).unserved(onPort(first.lb(w), 443))
		}
	})
}

// without returns the list without one value.
func without[T comparable](list []T, value T) []T {
	return slices.DeleteFunc(slices.Clone(list), func(x T) bool { return x == value })
}
