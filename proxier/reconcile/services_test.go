package reconcile

import (
	"fmt"
	"net/netip"
	"time"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// newService has a TCP port 80 on a ClusterIP of each family.
func newService(number int) *service {
	name := fmt.Sprintf("s%05d", number)
	return &service{Service: plan.Service{
		Name:       plan.ServiceName{Namespace: "default", Name: name},
		Created:    time.Unix(int64(number), 0),
		ClusterIPs: []netip.Addr{clusterIP(number, false), clusterIP(number, true)},
		Ports:      []plan.Port{{Name: "http", Protocol: ipvsutil.TCP, Port: 80}},
	}}
}

func clusterIP(number int, ipv6 bool) netip.Addr {
	high, low := byte(number>>8), byte(number)
	if ipv6 {
		return netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x10, 14: high, 15: low})
	}
	return netip.AddrFrom4([4]byte{10, 96, high, low})
}

// with adds ready endpoints of all ports, the first on this node and the others on
// another; each number is one pod.
func (s *service) with(pods ...int) *service {
	s.endpoints = nil
	for i, pod := range pods {
		node := "other"
		if i == 0 {
			node = "n"
		}
		s.endpoints = append(s.endpoints, s.pod(pod, node)...)
	}
	return s
}

// pod are the endpoints of one pod, in both families and for all ports.
func (s *service) pod(number int, node string) []plan.Endpoint {
	high, low := byte(number>>8), byte(number)
	v4 := netip.AddrFrom4([4]byte{10, 244, high, low})
	v6 := netip.AddrFrom16([16]byte{0: 0xfd, 1: 0x24, 14: high, 15: low})
	var list []plan.Endpoint
	for _, p := range s.Ports {
		for _, addr := range []netip.Addr{v4, v6} {
			list = append(list, plan.Endpoint{
				PortName: p.Name, Protocol: p.Protocol, Addr: netip.AddrPortFrom(addr, p.Port+8000),
				NodeName: node, Ready: true, Serving: true,
			})
		}
	}
	return list
}

// finish makes a pod's endpoints terminating; serving says whether they still serve.
func (s *service) finish(pod int, serving bool) *service {
	for _, gone := range s.pod(pod, "") {
		for i := range s.endpoints {
			if e := &s.endpoints[i]; e.Addr == gone.Addr && e.Protocol == gone.Protocol {
				e.Ready, e.Serving, e.Terminating = false, serving, true
			}
		}
	}
	return s
}

// dns adds a UDP port 53.
func (s *service) dns() *service {
	s.Ports = append(s.Ports, plan.Port{Name: "dns", Protocol: ipvsutil.UDP, Port: 53})
	return s
}

// nodePort gives the first port a NodePort.
func (s *service) nodePort(port uint16) *service {
	s.Type = plan.NodePort
	s.Ports[0].NodePort = port
	return s
}

// loadBalancer has an address of each family, and a source range.
func (s *service) loadBalancer(number int) *service {
	s.Type = plan.LoadBalancer
	s.LoadBalancerIPs = []netip.Addr{
		netip.AddrFrom4([4]byte{203, 0, 113, byte(number)}),
		netip.AddrFrom16([16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 14: 1, 15: byte(number)}),
	}
	s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24"), netip.MustParsePrefix("2001:db8:9::/48")}
	return s
}

// kubernetes is the API server's Service.
func kubernetes() *service {
	s := newService(9999)
	s.Name.Name = "kubernetes"
	s.Ports[0].Port = 443
	return s.with(250, 251)
}

// few is a small sample: what it lacks is another address or port of the same kind.
func (w *world) few() []*service {
	local := newService(5).nodePort(30005).loadBalancer(5).with(50, 51)
	local.ExternalLocal = true
	list := []*service{kubernetes(), newService(2).dns().with(20, 21), newService(3).with(30, 31), local}
	for _, s := range list {
		s.ClusterIPs = s.ClusterIPs[:1]
		w.put(s)
	}
	return list
}

// sample has a Service of each kind.
func (w *world) sample() []*service {
	external := newService(4)
	external.ExternalIPs = addrs("198.18.0.4", "192.0.2.11")
	local := newService(5).nodePort(30005).loadBalancer(5).dns().with(50, 51, 52)
	local.ExternalLocal = true
	remote := newService(6).nodePort(30006).loadBalancer(6).with(60, 61)
	remote.ExternalLocal = true
	remote.endpoints = append(remote.pod(60, "other"), remote.pod(61, "other")...)
	sticky := newService(7).with(70, 71)
	sticky.Persistence = 10800
	internal := newService(8).with(80)
	internal.InternalLocal = true
	internal.endpoints = internal.pod(80, "other")
	list := []*service{
		kubernetes(), newService(1).with(10, 11), newService(2).dns().with(20, 21), newService(3),
		external.with(40), local, remote, sticky, internal,
	}
	for _, s := range list {
		w.put(s)
	}
	return list
}
