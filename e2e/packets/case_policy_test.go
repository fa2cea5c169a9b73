//go:build kernel

package packets

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// Field reports about traffic policies and Services without endpoints.

// TestCaseC5LocalEndpointsOfExternalFrontends (kubernetes/kubernetes#66062, #71596).
func TestCaseC5LocalEndpointsOfExternalFrontends(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm, R3), loadBalancer: true, external: true, nodePort: true, externalLocal: true})
	s.each(func(w way) {
		for _, at := range []netip.AddrPort{v.lb(w), v.ext(w), v.node(w, N)} {
			w.from(X).times(5).to(at).reach(L1).seen(w.addr(X))
		}
		w.from(c1).times(6).to(v.cluster(w)).reach(L1, Rm, R3).seen(w.addr(c1))
	})
}

// TestCaseC6ExternalLocalLeavesTheClusterIP (kubernetes/kubernetes#57678): without a local
// endpoint the ClusterIP serves all the same.
func TestCaseC6ExternalLocalLeavesTheClusterIP(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(Rm, R3), loadBalancer: true, nodePort: true, externalLocal: true})
	s.each(func(w way) {
		for _, from := range []string{c1, N, X} {
			w.from(from).times(4).to(v.cluster(w)).reach(Rm, R3)
		}
	})
}

// TestCaseC7EveryFrontendWithoutEndpoints (kubernetes/kubernetes#78994, #20767): all
// frontends refuse, serve when there is an endpoint, and refuse again when the last one
// drains under an open stream.
func TestCaseC7EveryFrontendWithoutEndpoints(t *testing.T) {
	s := begin(t)
	v := s.service(service{loadBalancer: true, external: true, nodePort: true})
	frontends := func(w way) []netip.AddrPort { return []netip.AddrPort{v.cluster(w), v.lb(w), v.ext(w), v.node(w, N)} }
	refused := func(w way) {
		for _, at := range frontends(w) {
			for _, from := range []string{c1, N, X} {
				w.from(from).to(at).refused()
			}
		}
	}
	s.each(refused)
	v.endpoints = ready(L1)
	s.apply(v)
	s.each(func(w way) {
		for _, at := range frontends(w) {
			for _, from := range []string{c1, N, X} {
				w.from(from).to(at).reach(L1)
			}
		}
	})
	held := s.streams(v)
	v.endpoints = []endpoint{{L1, isUnready}}
	s.apply(v)
	s.eachTCP(refused)
	s.eachTCP(func(w way) { w.alive(held[w.f]) })
}

// TestCaseC8UDPClientComesBack (kubernetes/kubernetes#48370, #125467): one socket, no
// endpoint, and then another one.
func TestCaseC8UDPClientComesBack(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(Rm)})
	for _, now := range [][]string{{Rm}, nil, {L1}, nil, {L1, Rm}} {
		v.endpoints = ready(now...)
		s.apply(v)
		s.eachUDP(func(w way) {
			r := w.flow(v)
			if now == nil && r.Outcome != probe.Refused || now != nil && r.Outcome != probe.OK {
				w.Errorf("endpoints %v: %v", now, r)
			}
		})
	}
}

// TestCaseE7SourceRangesOfOneService (kubernetes/kubernetes#119656): what guards one
// Service's port leaves another Service's port at the same address alone.
func TestCaseE7SourceRangesOfOneService(t *testing.T) {
	s := begin(t)
	guarded := s.service(ranges("172.30.0.5/32", "fd30::5/128"))
	open := service{endpoints: ready(L1), loadBalancer: true, ports: []servicePort{{"tcp", TCP, 81, 8080}, {"udp", UDP, 81, 8080}}}
	open.change = func(o *corev1.Service) {
		for i, f := range testbed.Families() {
			o.Status.LoadBalancer.Ingress[i].IP = guarded.lbIP(f).String()
		}
	}
	s.service(open)
	s.eachTCP(func(w way) {
		for _, from := range []netip.Addr{w.addr(N), lab.Host(N).SecondAddr(w.f)} {
			w.from(N).bound(from).dropped(guarded.lb(w))
			w.from(N).bound(from).to(onPort(guarded.lb(w), 81)).reach(L1)
		}
	})
}

// TestCaseE8RangeOfAllAndAnotherFamily (kubernetes/kubernetes#132719): a range of length
// zero opens its own family alone.
func TestCaseE8RangeOfAllAndAnotherFamily(t *testing.T) {
	s := begin(t)
	v := s.service(ranges("0.0.0.0/0", "fd09::/64"))
	s.eachTCP(func(w way) {
		if w.f == IPv4 {
			for _, from := range []string{X, c1, N} {
				w.from(from).to(v.lb(w)).reachAny(L1, Rm)
			}
			return
		}
		for _, from := range []string{X, c1, N} {
			w.from(from).dropped(v.lb(w))
		}
	})
}

// reachAny wants an answer to every call, by any of the hosts.
func (a answers) reachAny(hosts ...string) {
	a.Helper()
	for _, r := range a.results {
		allowed := false
		for _, h := range hosts {
			allowed = allowed || r.Who == h
		}
		if r.Outcome != probe.OK || !allowed {
			a.fail("want an answer of one of %v", hosts)
			return
		}
	}
}

// TestCaseK2FamiliesOfAService (kubernetes/kubernetes#97343): each family alone, both in any
// order, and one that comes and goes.
func TestCaseK2FamiliesOfAService(t *testing.T) {
	s := begin(t)
	for _, order := range [][2]testbed.Family{{IPv4, IPv6}, {IPv6, IPv4}} {
		v := s.service(service{endpoints: ready(L1), change: inFamilies(order[0])})
		for _, n := range []int{1, 2, 1} {
			v.change = inFamilies(order[:n]...)
			s.apply(v)
			s.eachTCP(func(w way) {
				if n == 2 || w.f == order[0] {
					w.from(c1).to(v.cluster(w)).reach(L1)
					return
				}
				w.from(c1).unserved(v.cluster(w))
			})
		}
	}
}

// inFamilies leaves a Service these families alone, in this order.
func inFamilies(families ...testbed.Family) func(*corev1.Service) {
	return func(o *corev1.Service) {
		policy := corev1.IPFamilyPolicySingleStack
		if len(families) > 1 {
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		o.Spec.IPFamilyPolicy = &policy
		both := o.Spec.ClusterIPs
		o.Spec.ClusterIPs, o.Spec.IPFamilies = nil, nil
		for _, f := range families {
			for _, ip := range both {
				if testbed.FamilyOf(netip.MustParseAddr(ip)) == f {
					o.Spec.ClusterIPs = append(o.Spec.ClusterIPs, ip)
				}
			}
			o.Spec.IPFamilies = append(o.Spec.IPFamilies, corev1.IPFamily(f.String()))
		}
		o.Spec.ClusterIP = o.Spec.ClusterIPs[0]
	}
}

// TestCaseK4NodePortOfOneFamily (kubernetes/kubernetes#72098): the other family is refused
// at once and nobody listens there.
func TestCaseK4NodePortOfOneFamily(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1), nodePort: true, change: inFamilies(IPv4)})
	s.each(func(w way) {
		if w.f == IPv4 {
			w.from(X).to(v.node(w, N)).reach(L1)
			return
		}
		w.from(X).to(v.node(w, N)).refused()
	})
}

// TestCaseK5NodePortsAndHealthOfBothFamilies (cloudnativelabs/kube-router, 2026): policy
// Local and its health port in both.
func TestCaseK5NodePortsAndHealthOfBothFamilies(t *testing.T) {
	s := begin(t)
	v := s.service(withHealth(ready(L1, Rm)...)) // its NodePorts are zero
	v.nodePort = true
	change := v.change
	v.change = func(o *corev1.Service) {
		change(o)
		o.Spec.Type = corev1.ServiceTypeLoadBalancer
	}
	s.apply(v)
	s.eachTCP(func(w way) {
		w.from(X).times(3).to(v.node(w, N)).reach(L1).seen(w.addr(X))
		w.wantHealth(health{200, "1", 1})
	})
}
