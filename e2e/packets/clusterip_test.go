//go:build kernel

package packets

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

func TestStatement01PodReachesAllEndpoints(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	s.each(func(w way) {
		w.from(c1).times(20).to(v.cluster(w)).reach(L1, Rm).seen(w.addr(c1))
	})
}

func TestStatement02NodeProcessIsSeenWithNodeAddress(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	s.each(func(w way) {
		w.from(N).times(20).to(v.cluster(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
	})
}

func TestStatement03OutsideHostIsSeenWithNodeAddress(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	s.each(func(w way) {
		w.from(X).times(20).to(v.cluster(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
	})
}

func TestStatement07EndpointReachesItself(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1)})
	s.each(func(w way) {
		w.from(L1).times(3).to(v.cluster(w)).reach(L1).seen(w.nodeAddrs()...)
	})
}

func TestStatement08EndpointInTheNodesNetwork(t *testing.T) {
	s := begin(t)
	s.each(func(w way) { s.serve(N, w.proto, netip.AddrPortFrom(w.addr(N), 8080)) })
	v := s.service(service{endpoints: ready(N), nodePort: true})
	s.each(func(w way) {
		w.from(c1).times(3).to(v.cluster(w)).reach(N)
		w.from(N).times(3).to(v.cluster(w)).reach(N)
		w.from(X).times(3).to(v.node(w, N)).reach(N)
	})
}

func TestStatement09ProtocolsAreIndependent(t *testing.T) {
	s := begin(t)
	s.by([]probe.Protocol{SCTP}, func(w way) { s.serve(L2, SCTP, netip.AddrPortFrom(w.addr(L2), 8080)) })
	ports := []servicePort{{"tcp", TCP, 80, 8080}, {"udp", UDP, 80, 9090}, {"sctp", SCTP, 80, 8080}}
	v := s.service(service{ports: ports, slices: func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
		return []*discoveryv1.EndpointSlice{
			v.sliceOf(f, 0, ports[0:1], ready(L1)...),
			v.sliceOf(f, 1, ports[1:2], ready(Rm)...),
			v.sliceOf(f, 2, ports[2:3], ready(L2)...),
		}
	}})
	want := map[probe.Protocol]string{TCP: L1, UDP: Rm, SCTP: L2}
	s.by([]probe.Protocol{TCP, UDP, SCTP}, func(w way) {
		w.from(c1).times(4).to(v.cluster(w)).reach(want[w.proto]).seen(w.addr(c1))
	})
}

func TestStatement10NoEndpointsIsRefusedAtOnce(t *testing.T) {
	s := begin(t)
	v := s.service(service{})
	s.each(func(w way) {
		for _, from := range []string{c1, N, X} {
			w.from(from).to(v.cluster(w)).refused()
		}
		if w.proto == TCP { // ICMP alone would be late: its rate is limited
			w.from(c1).times(12).to(v.cluster(w)).refused()
			w.from(N).times(12).to(v.cluster(w)).refused()
		}
	})
}

func TestStatement11NoUsableEndpointIsRefusedAtOnce(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: []endpoint{{L1, isUnready}, {Rm, isTerminating}}})
	s.each(func(w way) {
		for _, from := range []string{c1, N, X} {
			w.from(from).to(v.cluster(w)).refused()
		}
	})
}

func TestStatement12OtherPortIsRejected(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1)})
	s.each(func(w way) {
		w.from(c1).to(onPort(v.cluster(w), 81)).refused()
	})
}

func TestStatement13HostListenerIsNotOnClusterIPs(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1)})
	s.eachTCP(func(w way) {
		s.serve(N, TCP, netip.AddrPortFrom(w.everyAddr(), 22))
		for _, from := range []string{c1, N, X} {
			w.from(from).to(onPort(v.cluster(w), 22)).refused()
			w.from(from).to(netip.AddrPortFrom(w.addr(N), 22)).reach(N)
		}
	})
}

func TestStatement14PortsOfOneServiceAreIndependent(t *testing.T) {
	s := begin(t)
	ports := []servicePort{{"http", TCP, 80, 8080}, {"https", TCP, 443, 8443}}
	v := s.service(service{ports: ports, endpoints: ready(L1)})
	s.eachTCP(func(w way) {
		if r := w.from(c1).to(v.cluster(w)).reach(L1).results[0]; r.Local.Port() != 8080 {
			w.Errorf("port 80 leads to %v", r.Local)
		}
		if r := w.from(c1).to(onPort(v.cluster(w), 443)).reach(L1).results[0]; r.Local.Port() != 8443 {
			w.Errorf("port 443 leads to %v", r.Local)
		}
	})
	v.ports = ports[:1]
	s.apply(v)
	s.eachTCP(func(w way) {
		w.from(c1).to(v.cluster(w)).reach(L1)
		w.from(c1).to(onPort(v.cluster(w), 443)).refused()
	})
}

func TestStatement15TargetPortOfEachSlice(t *testing.T) {
	s := begin(t)
	at := func(target uint16) []servicePort {
		return []servicePort{{"tcp", TCP, 80, target}, {"udp", UDP, 80, target}}
	}
	v := s.service(service{slices: func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
		return []*discoveryv1.EndpointSlice{
			v.sliceOf(f, 0, at(8080), ready(L1)...),
			v.sliceOf(f, 1, at(9090), ready(Rm)...),
		}
	}})
	want := map[string]uint16{L1: 8080, Rm: 9090}
	s.each(func(w way) {
		for _, r := range w.from(c1).times(8).to(v.cluster(w)).reach(L1, Rm).results {
			if r.Local.Port() != want[r.Who] {
				w.Errorf("%s was reached at %v", r.Who, r.Local)
			}
		}
	})
}

func TestStatement16PortIsChanged(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	v.ports = []servicePort{{"tcp", TCP, 81, 8080}, {"udp", UDP, 81, 8080}}
	s.apply(v)
	s.each(func(w way) {
		w.from(c1).to(onPort(v.cluster(w), 80)).refused()
		w.from(c1).times(4).to(onPort(v.cluster(w), 81)).reach(L1, Rm)
	})
}

func TestStatement17ExternalNameIsNotServed(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1), change: func(o *corev1.Service) {
		o.Spec.Type, o.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.org"
	}})
	s.each(func(w way) { w.from(c1).unserved(v.cluster(w)) })
}

func TestStatement18ServiceOfAnotherProxy(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1)})
	v.change = func(o *corev1.Service) {
		o.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "foo"}
	}
	s.apply(v)
	s.each(func(w way) { w.from(c1).unserved(v.cluster(w)) })
	v.change = nil
	s.apply(v)
	s.each(func(w way) { w.from(c1).to(v.cluster(w)).reach(L1) })
}

func TestStatement19HeadlessSliceIsIgnored(t *testing.T) {
	s := begin(t)
	v := s.service(service{slices: func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
		headless := v.sliceOf(f, 1, web, ready(Rm)...)
		headless.Labels[corev1.IsHeadlessService] = ""
		return []*discoveryv1.EndpointSlice{v.sliceOf(f, 0, web, ready(L1)...), headless}
	}})
	s.each(func(w way) { w.from(c1).times(6).to(v.cluster(w)).reach(L1) })
}

func TestStatement20PortLikeANodePortKeepsTheSource(t *testing.T) {
	s := begin(t)
	other := s.service(service{endpoints: ready(L1), nodePort: true})
	port := other.nodePortOf(80)
	v := s.service(service{endpoints: ready(L1, Rm), ports: []servicePort{{"tcp", TCP, port, 8080}, {"udp", UDP, port, 8080}}})
	s.each(func(w way) {
		w.from(c1).times(8).to(v.cluster(w)).reach(L1, Rm).seen(w.addr(c1))
	})
}
