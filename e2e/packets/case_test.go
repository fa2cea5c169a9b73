//go:build kernel

package packets

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// Tests of what went wrong in the field, each with the public report that told it.

// eventually asks until the wish is fulfilled, for at most ten seconds.
func (w way) eventually(what string, wish func() bool) {
	w.Helper()
	for deadline := time.Now().Add(10 * time.Second); !wish(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("%s: not within ten seconds", what)
		}
	}
}

// TestCaseA1AndA3AddressOfAnotherNode (kubernetes/kubernetes#127410, rancher/rke#2010): a
// Service that names the address of another node takes its ports, and no more.
func TestCaseA1AndA3AddressOfAnotherNode(t *testing.T) {
	s := begin(t)
	for _, f := range []testbed.Family{IPv4, IPv6} {
		s.serve(M, TCP, netip.AddrPortFrom(lab.Host(M).Addr(f), 6443))
	}
	for _, kind := range []string{"externalIP", "load balancer"} {
		v := s.service(service{endpoints: ready(L1), change: func(o *corev1.Service) {
			m := lab.Host(M)
			if kind == "externalIP" {
				o.Spec.ExternalIPs = []string{m.Addr(IPv4).String(), m.Addr(IPv6).String()}
				return
			}
			o.Spec.Type = corev1.ServiceTypeLoadBalancer
			o.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: m.Addr(IPv4).String()}, {IP: m.Addr(IPv6).String()}}
		}})
		s.eachTCP(func(w way) {
			w.from(N).times(4).to(v.at(w.addr(M))).reach(L1)
			w.from(N).to(netip.AddrPortFrom(w.addr(M), 6443)).reach(M)
			w.from(c1).to(netip.AddrPortFrom(w.addr(M), 6443)).reach(M)
			if out := s.run("ip", "route", "get", w.addr(M).String()); strings.HasPrefix(out, "local") {
				w.Errorf("%s: N has the address of M: %s", kind, out)
			}
		})
		s.remove(v)
	}
}

// TestCaseA11ProbeFromTheLoadBalancersAddress (kubernetes/kubernetes#79783): a load
// balancer that probes a NodePort with its own address as source gets an answer.
func TestCaseA11ProbeFromTheLoadBalancersAddress(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1), loadBalancer: true, nodePort: true})
	s.eachTCP(func(w way) {
		lb := v.lbIP(w.f)
		if err := lab.Host(X).AddAddr("lo", lb, lb.BitLen()); err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() {
			if err := lab.Host(X).RemoveAddr("lo", lb, lb.BitLen()); err != nil {
				w.Error(err)
			}
		})
		if err := lab.Host(N).Route(netip.PrefixFrom(lb, lb.BitLen()), "eth0", w.addr(X)); err != nil {
			w.Fatal(err)
		}
		w.from(X).bound(lb).to(v.node(w, N)).reach(L1)
	})
}

// TestCaseB10HostPortRule (containernetworking/plugins#222): a hostPort's rule for
// local destinations, put ahead of ours, does not keep the traffic of a ClusterIP.
func TestCaseB10HostPortRule(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1)})
	w := way{t, IPv4, TCP}
	rule := fmt.Sprintf("PREROUTING -m addrtype --dst-type LOCAL -p tcp --dport 80 -j DNAT --to-destination %s:8080", w.addr(L2))
	s.shell("iptables -w -t nat -I " + rule)
	t.Cleanup(func() { s.shell("iptables -w -t nat -D " + rule) })
	w.eventually("the Service's own endpoint", func() bool {
		for _, r := range lab.Host(c1).Many(probe.Call{Protocol: TCP, To: v.cluster(w)}, 4, 1) {
			if r.Outcome != probe.OK || r.Who != L1 {
				return false
			}
		}
		return true
	})
}

// TestCaseM1AndM4SchedulerAndWeights (kubernetes/kubernetes#121591): a Service chooses its
// scheduler, its flags and weights; a wrong one changes nothing.
func TestCaseM1AndM4SchedulerAndWeights(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), change: func(o *corev1.Service) {
		o.Annotations = map[string]string{
			"kube-ipvs-proxy/scheduler": "wrr",
			"kube-ipvs-proxy/weights":   lab.Host(Rm).Addr(IPv4).String() + "=3",
		}
	}})
	w := way{t, IPv4, TCP}
	out := s.run("ipvsadm", "-Ln", "-t", v.cluster(w).String())
	if !strings.Contains(out, " wrr") || !strings.Contains(out, "Masq    3") {
		t.Errorf("scheduler or weight is not the Service's:\n%s", out)
	}
	wrong := s.service(service{endpoints: ready(L1), change: func(o *corev1.Service) {
		o.Annotations = map[string]string{"kube-ipvs-proxy/scheduler": "fastest"}
	}})
	w.from(c1).to(wrong.cluster(w)).reach(L1)
}

// TestCaseL5NodeLocal (kubernetes/website#18716): a Service that is left to a server
// of this node is not taken from it.
func TestCaseL5NodeLocal(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(Rm), change: func(o *corev1.Service) {
		o.Annotations = map[string]string{"kube-ipvs-proxy/node-local": "skip"}
	}})
	s.each(func(w way) {
		a := v.clusterIP(w.f)
		if err := lab.Host(N).AddAddr("lo", a, a.BitLen()); err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() {
			if err := lab.Host(N).RemoveAddr("lo", a, a.BitLen()); err != nil {
				w.Error(err)
			}
		})
		s.serve(N, w.proto, v.cluster(w))
		// The kernel makes the route of an IPv6 address in its own time.
		w.eventually("the route", func() bool { return lab.Host(c1).Probe.Do(w.call(v.cluster(w))).Who == N })
		w.from(c1).to(v.cluster(w)).reach(N)
		for chain, side := range map[string]string{"PREROUTING": "-d", "OUTPUT": "-s"} { // as node-local DNS has it
			rule := []string{chain, side, a.String(), "-j", "NOTRACK"}
			s.run(iptables(w.f), append([]string{"-t", "raw", "-I"}, rule...)...)
			w.Cleanup(func() { s.run(iptables(w.f), append([]string{"-t", "raw", "-D"}, rule...)...) })
		}
		w.from(c1).to(v.cluster(w)).reach(N)
	})
}
