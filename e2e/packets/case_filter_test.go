//go:build kernel

package packets

import (
	"net/netip"
	"testing"

	"kube-ipvs-proxy/e2e/testbed"
)

// Field reports about the host's own ports, firewalls and health ports.

// TestCaseE1HostListenersAndServices (kubernetes/kubernetes#72236): a server of the host
// that listens on all addresses does not answer at those of Services.
func TestCaseE1HostListenersAndServices(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1), loadBalancer: true, external: true})
	s.each(func(w way) {
		s.serve(N, w.proto, netip.AddrPortFrom(w.everyAddr(), 2222))
		for _, from := range []string{c1, N, X} {
			w.from(from).to(onPort(v.cluster(w), 2222)).refused()
		}
	})
	s.eachTCP(func(w way) {
		w.from(X).to(netip.AddrPortFrom(w.addr(N), 2222)).reach(N)
		w.from(X).unserved(onPort(v.lb(w), 2222))
		w.from(c1).unserved(onPort(v.ext(w), 2222))
	})
}

// TestCaseE3AndX7HealthPortOfALoadBalancersAddress (kubernetes/kubernetes#117621): it is
// asked at the load balancer's address, too, and opens nothing for UDP.
func TestCaseE3AndX7HealthPortOfALoadBalancersAddress(t *testing.T) {
	s := begin(t)
	v := s.service(withHealth(ready(L1)...))
	for _, f := range testbed.Families() {
		s.serve(N, UDP, netip.AddrPortFrom(way{t, f, UDP}.everyAddr(), healthPort))
	}
	s.eachTCP(func(w way) {
		w.wantHealthAt(v.lbIP(w.f), health{200, "1", 1})
		way{w.T, w.f, UDP}.from(X).unserved(netip.AddrPortFrom(v.lbIP(w.f), healthPort))
	})
	v.endpoints = ready(Rm)
	s.apply(v)
	s.eachTCP(func(w way) { w.wantHealthAt(v.lbIP(w.f), health{503, "0", 0}) })
}

// policyDrop has a chain of the filter table drop by default until the test ends, but for
// connections that are open and neighbour discovery.
func (s *scene) policyDrop(chain string) {
	s.Helper()
	for _, f := range testbed.Families() {
		p, icmp := iptables(f), "icmp"
		if f == IPv6 {
			icmp = "ipv6-icmp"
		}
		s.Cleanup(func() {
			s.run(p, "-P", chain, "ACCEPT")
			s.run(p, "-D", chain, "-m", "conntrack", "--ctstate", "ESTABLISHED", "-j", "ACCEPT")
			s.run(p, "-D", chain, "-p", icmp, "-j", "ACCEPT")
		})
		s.run(p, "-A", chain, "-m", "conntrack", "--ctstate", "ESTABLISHED", "-j", "ACCEPT")
		s.run(p, "-A", chain, "-p", icmp, "-j", "ACCEPT")
		s.run(p, "-P", chain, "DROP")
	}
}

// TestCaseE4AndE5InputPolicyDrop (kubernetes/kubernetes#97225, #98465): frontends of every
// kind and the health port pass a default-deny INPUT chain; what is the host's does not.
func TestCaseE4AndE5InputPolicyDrop(t *testing.T) {
	s := begin(t)
	for _, f := range testbed.Families() {
		s.serve(N, TCP, netip.AddrPortFrom(way{t, f, TCP}.everyAddr(), 2222))
	}
	all := withHealth(ready(L1)...)
	all.nodePort, all.external = true, true
	v := s.service(all)
	s.policyDrop("INPUT")
	s.each(func(w way) {
		for _, at := range []netip.AddrPort{v.lb(w), v.ext(w), v.node(w, N)} {
			w.from(X).times(2).to(at).reach(L1).seen(w.addr(X))
		}
		w.from(c1).times(2).to(v.cluster(w)).reach(L1)
	})
	s.eachTCP(func(w way) {
		w.wantHealth(health{200, "1", 1})
		w.from(X).unserved(netip.AddrPortFrom(w.addr(N), 2222))
	})
}

// TestCaseE6ForwardPolicyDrop (kubernetes/kubernetes#59656): a FORWARD chain that Docker
// set to drop does not stop Services whose endpoints are elsewhere.
func TestCaseE6ForwardPolicyDrop(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), nodePort: true})
	for _, f := range testbed.Families() {
		p := iptables(f)
		s.run(p, "-P", "FORWARD", "DROP")
		t.Cleanup(func() { s.run(p, "-P", "FORWARD", "ACCEPT") })
	}
	s.each(func(w way) {
		w.from(X).times(4).to(v.node(w, N)).reach(L1, Rm)
		w.from(c1).times(4).to(v.cluster(w)).reach(L1, Rm)
		w.from(N).times(4).to(v.cluster(w)).reach(L1, Rm)
	})
}

// TestCaseG8PolicyEngineDropsPodsToTheNode (projectcalico/calico#2617): a rule that drops
// what pods send to the host, put before ours, does not stop Services.
func TestCaseG8PolicyEngineDropsPodsToTheNode(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(Rm)})
	for _, f := range testbed.Families() {
		p := iptables(f)
		rule := []string{"INPUT", "-i", "cbr0", "-m", "conntrack", "--ctstate", "NEW", "-j", "DROP"}
		if f == IPv6 {
			rule = append(rule[:3:3], append([]string{"!", "-p", "ipv6-icmp"}, rule[3:]...)...)
		}
		s.run(p, append([]string{"-I"}, rule...)...)
		t.Cleanup(func() { s.run(p, append([]string{"-D"}, rule...)...) })
	}
	s.eachTCP(func(w way) {
		w.eventually("a pod is served", func() bool { return w.served(c1, v.cluster(w), w.addr(c1)) })
		w.from(c1).times(2).to(v.cluster(w)).reach(Rm)
	})
}

// TestCaseG9ChainsOfTheKubelet (kubernetes/kubernetes#110289): chains that the kubelet once
// made can go; source ranges hold without them.
func TestCaseG9ChainsOfTheKubelet(t *testing.T) {
	s := begin(t)
	for _, f := range testbed.Families() {
		s.run(iptables(f), "-t", "nat", "-N", "KUBE-MARK-DROP")
		s.run(iptables(f), "-N", "KUBE-KUBELET-CANARY")
	}
	v := s.service(ranges("10.244.0.0/16", "fd44::/48"))
	for _, f := range testbed.Families() {
		s.run(iptables(f), "-t", "nat", "-X", "KUBE-MARK-DROP") // fails if a rule needs it
		s.run(iptables(f), "-X", "KUBE-KUBELET-CANARY")
	}
	s.eachTCP(func(w way) {
		w.from(X).dropped(v.lb(w))
		w.from(c1).times(2).to(v.lb(w)).reachAny(L1, Rm)
	})
}
