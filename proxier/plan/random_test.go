package plan_test

import (
	"fmt"
	"net/netip"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// dice draws a world from bytes, so that the random tests and the fuzzer share one
// generator. When the bytes are used up every throw is zero.
type dice struct{ bytes []byte }

// n throws a number below sides.
func (d *dice) n(sides int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b) % sides
}

func (d *dice) yes() bool { return d.n(2) == 1 }

// pick draws up to most values, some of them twice.
func pick[T any](d *dice, most int, from []T) []T {
	var picked []T
	for range d.n(most + 1) {
		picked = append(picked, from[d.n(len(from))])
	}
	return picked
}

// The pools are small so that things meet, and hold what no Service may have.
var (
	externalPool = append(addrs("203.0.113.200 203.0.113.201 192.0.2.11 192.0.2.50 10.96.0.80 2001:db8:f::200 "+
		"2001:db8:f::201 2001:db8::11 fd00::80 127.0.0.1 224.0.0.1 0.0.0.0 :: fe80::1 fd00::1%eth0 ::ffff:10.0.0.1"), netip.Addr{})
	clusterPool  = append(addrs("10.96.0.80 10.96.0.81 fd00::80 fd00::81 127.0.0.1 ::1"), netip.Addr{})
	rangePool    = prefixes("10.244.0.0/16", "192.0.2.0/24", "192.0.2.200/32", "192.0.2.77/24", "0.0.0.0/0", "::/0", "2001:db8::/32", "fd00::1/128")
	endpointPool = append(addrs("10.244.1.10 10.244.1.11 10.244.2.10 192.0.2.11 fd00:1::10 fd00:2::10 127.0.0.1 ::1 ::ffff:10.0.0.1"), netip.Addr{})
	nodeNames    = []string{"n", "m", ""}
	portNames    = []string{"", "http", "dns"}
	hintPool     = []string{"z1", "z2", "n", "m"}
	protocols    = []ipvsutil.Protocol{ipvsutil.TCP, ipvsutil.UDP, ipvsutil.SCTP, 1}
	portNumbers  = []uint16{80, 81, 30080, 32000, 0}
	nodePorts    = []uint16{0, 30080, 30081, 80}
	schedulers   = []string{"", "rr", "lc", "mh", "sh"}
)

func prefixes(texts ...string) []netip.Prefix {
	var ps []netip.Prefix
	for _, t := range texts {
		ps = append(ps, netip.MustParsePrefix(t))
	}
	return append(ps, netip.Prefix{})
}

func randomWorld(d *dice) world {
	w := fixture()
	w.node.Name = nodeNames[d.n(len(nodeNames))]
	w.node.Zone = hintPool[d.n(2)]
	if d.yes() {
		w.node.NodePortAddrs = w.node.Addrs[:3]
	}
	w.config = plan.Config{Scheduler: schedulers[d.n(len(schedulers))], BindExternal: d.yes()}
	s := &w.service
	s.Type = plan.ServiceType(d.n(4))
	s.ClusterIPs = append(s.ClusterIPs, clusterPool[d.n(len(clusterPool))])
	s.ClusterIPs = append(s.ClusterIPs, pick(d, 1, clusterPool)...)
	s.ExternalIPs = pick(d, 4, externalPool)
	s.LoadBalancerIPs = pick(d, 4, externalPool)
	s.SourceRanges = pick(d, 3, rangePool)
	s.ExternalLocal, s.InternalLocal = d.yes(), d.yes()
	s.Persistence = uint32(d.n(2) * 10800)
	s.HealthCheckNodePort = uint16(d.n(2) * 32000)
	for range d.n(5) {
		s.Ports = append(s.Ports, plan.Port{
			Name: portNames[d.n(len(portNames))], Protocol: protocols[d.n(len(protocols))],
			Port: portNumbers[d.n(len(portNumbers))], NodePort: nodePorts[d.n(len(nodePorts))],
		})
	}
	for range d.n(12) {
		w.endpoints = append(w.endpoints, randomEndpoint(d))
	}
	return w
}

func randomEndpoint(d *dice) plan.Endpoint {
	return plan.Endpoint{
		PortName: portNames[d.n(len(portNames))],
		Protocol: protocols[d.n(len(protocols))],
		Addr: netip.AddrPortFrom(endpointPool[d.n(len(endpointPool))],
			[]uint16{8080, 8081, 0}[d.n(3)]),
		NodeName: nodeNames[d.n(len(nodeNames))],
		Ready:    d.yes(), Serving: d.yes(), Terminating: d.yes(),
		Zones: pick(d, 2, hintPool), Nodes: pick(d, 1, hintPool),
	}
}

// String prints the world for a failure.
func (w world) String() string {
	return fmt.Sprintf("service %+v\nendpoints %+v\nnode %+v\nconfig %+v", w.service, w.endpoints, w.node, w.config)
}
