//go:build kernel

package packets

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// Field reports about masquerading and the sources that endpoints see.

var allProtocols = []probe.Protocol{TCP, UDP, SCTP}

// sctp is one port for SCTP.
var sctp = []servicePort{{"sctp", SCTP, 80, 8080}}

// serveSCTP has pods answer by SCTP until the test ends.
func (s *scene) serveSCTP(pods ...string) {
	s.Helper()
	for _, pod := range pods {
		for _, f := range testbed.Families() {
			s.serve(pod, SCTP, netip.AddrPortFrom(lab.Host(pod).Addr(f), 8080))
		}
	}
}

// TestCaseB1MasqueradingSparesNodePorts (kubernetes/kubernetes#139276): a connection of
// the node whose own port is a NodePort's number is masqueraded to another, so that its
// answers are not taken for requests.
func TestCaseB1MasqueradingSparesNodePorts(t *testing.T) {
	s := begin(t)
	other := s.service(service{endpoints: ready(L1), nodePort: true})
	v := s.service(service{endpoints: ready(Rm)})
	s.each(func(w way) {
		call := probe.Call{Protocol: w.proto, To: v.cluster(w), From: other.node(w, N)}
		r := lab.Host(N).Probe.Do(call)
		if r.Outcome != probe.OK || r.Who != Rm {
			w.Fatalf("from %v: %v", call.From, r)
		}
		if port := r.Source.Port(); port >= 30000 && port <= 32767 {
			w.Errorf("masqueraded to port %d, which may be a NodePort", port)
		}
	})
}

// TestCaseB2PortLikeALocalNodePort (kubernetes/kubernetes#132068): the same as statement
// 20 with a NodePort of policy Local, and as a node process sees it.
func TestCaseB2PortLikeALocalNodePort(t *testing.T) {
	s := begin(t)
	other := s.service(service{endpoints: ready(L1), nodePort: true, externalLocal: true})
	port := other.nodePortOf(80)
	v := s.service(service{endpoints: ready(L2, Rm), ports: []servicePort{{"tcp", TCP, port, 8080}, {"udp", UDP, port, 8080}}})
	s.each(func(w way) {
		w.from(c1).times(6).to(v.cluster(w)).reach(L2, Rm).seen(w.addr(c1))
		w.from(N).times(6).to(v.cluster(w)).reach(L2, Rm).seen(w.nodeAddrs()...)
	})
}

// TestCaseB3PodReachesItself (kubernetes/kubernetes#53775, #85877): with affinity, by all
// protocols.
func TestCaseB3PodReachesItself(t *testing.T) {
	s := begin(t)
	s.serveSCTP(L1)
	v := s.service(service{endpoints: ready(L1), affinity: threeHours, ports: append(sctp, web...)})
	s.by(allProtocols, func(w way) {
		w.from(L1).times(2).to(v.cluster(w)).reach(L1).seen(w.nodeAddrs()...)
	})
}

// TestCaseB6AndB7NodePortOfSCTP (kubernetes/kubernetes#104755, #81474): with policy Local
// the client is seen, on every address of the node, also on one that came later.
func TestCaseB6AndB7NodePortOfSCTP(t *testing.T) {
	s := begin(t)
	s.serveSCTP(L1, Rm)
	local := s.service(service{endpoints: ready(L1, Rm), nodePort: true, externalLocal: true, ports: sctp})
	all := s.service(service{endpoints: ready(L1, Rm), nodePort: true, ports: sctp})
	s.by([]probe.Protocol{SCTP}, func(w way) {
		later, bits := onNetwork(w.f, 99)
		w.give(N, later, bits)
		w.eventually("SCTP on the new address", func() bool {
			return lab.Host(X).Probe.Do(probe.Call{Protocol: SCTP, To: all.nodePortAt(later), Timeout: time.Second}).Outcome == probe.OK
		})
		for _, a := range append(w.nodeAddrs(), later) {
			w.from(X).times(4).to(local.nodePortAt(a)).reach(L1).seen(w.addr(X), lab.Host(X).SecondAddr(w.f))
			w.from(X).times(4).to(all.nodePortAt(a)).reach(L1, Rm).seen(append(w.nodeAddrs(), later)...)
		}
	})
}

// TestCaseB8TunnelIsNotMasqueraded (kubernetes/kubernetes#88986): a process of the node
// asks a Service whose endpoint is behind a VXLAN; the packet is masqueraded once, and
// the one that carries it is left as the tunnel made it.
func TestCaseB8TunnelIsNotMasqueraded(t *testing.T) {
	s := begin(t)
	ends := map[string]string{N: "1", M: "2"}
	for host, peer := range map[string]string{N: M, M: N} {
		for _, line := range []string{
			fmt.Sprintf("ip link add vx0 type vxlan id 7 dstport 4789 local %v remote %v dev eth0", lab.Host(host).Addr(IPv4), lab.Host(peer).Addr(IPv4)),
			"ip link set vx0 up",
			"ip address add 10.77.0." + ends[host] + "/24 dev vx0",
			"ip -6 address add fd77::" + ends[host] + "/64 dev vx0 nodad",
		} {
			if _, err := lab.Host(host).Exec(context.Background(), "sh", "-c", line); err != nil {
				t.Fatal(err)
			}
		}
		t.Cleanup(func() {
			if _, err := lab.Host(host).Exec(context.Background(), "ip", "link", "del", "vx0"); err != nil {
				t.Error(err)
			}
		})
	}
	pod := func(f testbed.Family) netip.Addr { return numbered(f, "10.77.0.2", "fd77::2") }
	s.each(func(w way) { s.serve(M, w.proto, netip.AddrPortFrom(pod(w.f), 8080)) })
	v := s.service(service{slices: func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
		one := v.sliceOf(f, 0, web, ready(M)...)
		one.Endpoints[0].Addresses = []string{pod(f).String()}
		return []*discoveryv1.EndpointSlice{one}
	}})
	m := s.sniff(M)
	s.each(func(w way) {
		before := m.To(UDP, 4789)
		w.from(N).times(3).to(v.cluster(w)).reach(M).seen(numbered(w.f, "10.77.0.1", "fd77::1"))
		// The answer may be here before what was heard on the way is read.
		for deadline := time.Now().Add(patient); m.To(UDP, 4789) == before; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				w.Fatal("no packet of the tunnel reached M")
			}
		}
	})
	for line := range strings.Lines(s.run("conntrack", "-L", "-p", "udp", "--orig-port-dst", "4789")) {
		tuple := map[string][]string{}
		for _, word := range strings.Fields(line) {
			if key, value, ok := strings.Cut(word, "="); ok {
				tuple[key] = append(tuple[key], value)
			}
		}
		if sport, dport := tuple["sport"], tuple["dport"]; len(sport) == 2 && sport[0] != dport[1] {
			t.Errorf("a packet of the tunnel was masqueraded: %s", line)
		}
	}
}

// TestCaseB11NodePortOfARemoteEndpoint (kubernetes/kubernetes#53393): answers come back by
// the node, for clients outside, pods and processes.
func TestCaseB11NodePortOfARemoteEndpoint(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(Rm), nodePort: true})
	s.each(func(w way) {
		for _, from := range []string{X, c1, N} {
			w.from(from).times(2).to(v.node(w, N)).reach(Rm).seen(w.nodeAddrs()...)
		}
	})
}
