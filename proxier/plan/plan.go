package plan

import (
	"net/netip"
	"slices"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// For returns what the Service wants on the node, and what of it cannot be served.
// A nil Service, a headless one and one of type ExternalName want nothing.
func For(service *Service, endpoints []Endpoint, node Node, config Config) (Claims, []Problem) {
	if service == nil || service.NodeLocal || service.Type == ExternalName || len(service.ClusterIPs) == 0 {
		return Claims{}, nil
	}
	b := newBuilder(service, node, config)
	b.checkScheduler()
	ports := b.fitPorts()
	endpoints = b.fitEndpoints(endpoints)
	byPort := groupByPort(endpoints)
	for _, ipv6 := range []bool{false, true} {
		clusterIP, ok := clusterIPOf(service, ipv6)
		if !ok || ipv6 && config.NoIPv6 {
			continue
		}
		if reason := unfit(clusterIP); reason != "" {
			b.problem("clusterIP "+clusterIP.String(), reason)
			continue
		}
		if slices.Contains(node.IPs, clusterIP) {
			// Bound, it would refuse all else that the node answers there.
			b.problem("clusterIP "+clusterIP.String(), "is the Node's own address")
			continue
		}
		b.family(clusterIP, ports, byPort)
	}
	b.checkFlags()
	b.healthCheck(endpoints)
	b.claims.DrainTimeout = service.DrainTimeout
	return b.claims, b.problems
}

// ForNode returns what the node itself wants: the set of addresses that serve NodePorts.
func ForNode(node Node) Claims {
	var claims Claims
	for _, addr := range node.NodePortAddrs {
		claims.Members = append(claims.Members, ipsetutil.Member{
			Set:   ipsetutil.NodeIP.Name(addr.Is6()),
			Entry: ipsetutil.Entry{Addr: addr},
		})
	}
	return claims
}

func clusterIPOf(service *Service, ipv6 bool) (netip.Addr, bool) {
	for _, addr := range service.ClusterIPs {
		if addr.Is6() == ipv6 {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

// builder collects the claims of one Service. The maps find what is claimed
// already where that is much: a Service may have thousands of frontends and members.
type builder struct {
	service   *Service
	node      Node
	config    Config
	claims    Claims
	problems  []Problem
	own       string // scheduler of the Service; empty: that of the configuration
	reported  map[Problem]bool
	frontends map[ipvsutil.Key]int // index in claims.Frontends
	members   map[ipsetutil.Member]bool
	// ranges are those of loadBalancerSourceRanges that count in the family at hand.
	ranges []netip.Prefix
	served [2]bool // IPv4, IPv6
}

func newBuilder(service *Service, node Node, config Config) *builder {
	return &builder{
		service: service, node: node, config: config,
	}
}

// problem reports one thing once, also when both families or many ports meet it.
func (b *builder) problem(part, reason string) {
	p := Problem{Service: b.service.Name, Part: part, Reason: reason}
	if !b.reported[p] {
		if b.reported == nil {
			b.reported = map[Problem]bool{}
		}
		b.reported[p] = true
		b.problems = append(b.problems, p)
	}
}

// place is an external address where ports are served: an externalIP or an address
// of the load balancer at their number, an address of the node at their NodePort.
type place struct {
	addr     netip.Addr
	nodePort bool
	// captured: the node does not own the address, packets need the capture rule.
	captured bool
	members  membersOf
}

// number is where a port is served at the place; zero: it is not.
func (p place) number(port Port) uint16 {
	if p.nodePort {
		return port.NodePort
	}
	return port.Port
}

// family claims every frontend of the Service in the family of clusterIP.
func (b *builder) family(clusterIP netip.Addr, ports []Port, byPort portGroups) {
	if len(ports) == 0 {
		return
	}
	ipv6 := clusterIP.Is6()
	b.served[index(ipv6)] = true
	b.ranges = b.sourceRanges(ipv6)
	b.bind(clusterIP)
	places := b.places(clusterIP)
	for _, port := range ports {
		key := PortKey{port.Name, port.Protocol, ipv6}
		endpoints := byPort.of(key)
		chosen := selectEndpoints(endpoints, b.node, b.service.Weights)
		b.hairpin(endpoints)
		b.internal(clusterIP, port, chosen)
		b.noLocal(ipv6, chosen)
		external := false
		for _, p := range places {
			if number := p.number(port); number != 0 && b.external(p, number, key, chosen) {
				external = true
			}
		}
		b.loopback(clusterIP, port, chosen)
		if external && b.externalLocal() && len(chosen.cluster) > 0 {
			b.claims.ShortCircuits = append(b.claims.ShortCircuits, b.shortCircuit(key, chosen))
		}
	}
}

// noLocal counts a port that has endpoints, but none where its policies want one.
func (b *builder) noLocal(ipv6 bool, chosen selection) {
	if len(chosen.local) > 0 || !chosen.any {
		return
	}
	if b.service.InternalLocal {
		b.claims.NoLocal.Internal[index(ipv6)]++
	}
	if b.externalLocal() {
		b.claims.NoLocal.External[index(ipv6)]++
	}
}

// loopback claims the port on the loopback address as long as an endpoint can serve:
// without a claim it is refused at once. Its connections go the way of those that a
// process of the node makes to the NodePort, or to the ClusterIP where no address of
// the node serves NodePorts.
func (b *builder) loopback(clusterIP netip.Addr, port Port, chosen selection) {
	if !b.config.LoopbackNodePorts || port.Protocol != ipvsutil.TCP || port.NodePort == 0 || len(chosen.cluster) == 0 {
		return
	}
	to := netip.AddrPortFrom(clusterIP, port.Port)
	if own := familyOf(b.node.NodePortAddrs, clusterIP.Is6()); len(own) > 0 {
		to = netip.AddrPortFrom(own[0], port.NodePort)
	}
	b.claims.Loopback = append(b.claims.Loopback, LoopbackPort{NodePort: port.NodePort, To: to})
}

// places returns where external clients reach the Service in the family of clusterIP.
func (b *builder) places(clusterIP netip.Addr) []place {
	ipv6 := clusterIP.Is6()
	var places []place
	for _, addr := range familyOf(b.externalIPs(), ipv6) {
		if addr == clusterIP {
			b.problem("externalIP "+addr.String(), "is the Service's own clusterIP, and served as that")
			continue
		}
		places = b.place(places, addr, "externalIP", externalIPMembers)
	}
	for _, addr := range familyOf(b.service.LoadBalancerIPs, ipv6) {
		if addr == clusterIP {
			b.problem("load-balancer address "+addr.String(), "is the Service's own clusterIP, and served as that")
			continue
		}
		places = b.place(places, addr, "load-balancer address", loadBalancerMembers)
	}
	for _, addr := range familyOf(b.node.NodePortAddrs, ipv6) {
		places = append(places, place{addr: addr, nodePort: true, members: nodePortMembers})
	}
	return places
}

// externalIPs are those of the Service, unless the operator serves none.
func (b *builder) externalIPs() []netip.Addr {
	if b.config.NoExternalIPs {
		return nil
	}
	return b.service.ExternalIPs
}

// allowed: whoever may write Services could otherwise take the node's traffic to any
// address.
func (b *builder) allowed(addr netip.Addr) bool {
	if len(b.config.AllowExternal) == 0 || slices.Contains(b.node.Addrs, addr) {
		return true
	}
	return slices.ContainsFunc(b.config.AllowExternal, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// place adds an external address if it can be served, and claims it: nothing for an
// address of the node's own devices, else bound or captured.
func (b *builder) place(places []place, addr netip.Addr, what string, of membersOf) []place {
	if reason := unfit(addr); reason != "" {
		b.problem(what+" "+addr.String(), reason)
		return places
	}
	if !b.allowed(addr) {
		b.problem(what+" "+addr.String(), "is outside of the ranges that the node's operator allows")
		return places
	}
	if b.config.BindExternal && b.bindsServer(addr) {
		b.problem(what+" "+addr.String(), "is where this node reaches the API server, and binding takes all its ports")
		return places
	}
	p := place{addr: addr, members: of}
	switch {
	case slices.Contains(b.node.Addrs, addr):
	case b.config.BindExternal:
		b.bind(addr)
	default:
		p.captured = true
		b.claims.Captured = appendNew(b.claims.Captured, addr)
	}
	return append(places, p)
}

func (b *builder) bind(addr netip.Addr) {
	b.claims.Bound = appendNew(b.claims.Bound, addr)
	b.member(ipsetutil.Member{
		Set:   ipsetutil.IPVSIPs.Name(addr.Is6()),
		Entry: ipsetutil.Entry{Addr: addr},
	})
}

func (b *builder) member(m ipsetutil.Member) {
	if b.members == nil && len(b.claims.Members) == few {
		b.members = make(map[ipsetutil.Member]bool, 2*few)
		for _, have := range b.claims.Members {
			b.members[have] = true
		}
	}
	if b.members == nil {
		b.claims.Members = appendNew(b.claims.Members, m)
		return
	}
	if !b.members[m] {
		b.members[m] = true
		b.claims.Members = append(b.claims.Members, m)
	}
}

// few are so many that to go through them is less work than a map.
const few = 16

// externalLocal: the policy counts only for a Service that is reachable from
// outside (KEP-2086; the API server refuses it elsewhere, stale objects have it).
func (b *builder) externalLocal() bool {
	s := b.service
	return s.ExternalLocal && (s.Type != ClusterIP || len(s.ExternalIPs) > 0)
}

// hairpin lets endpoints on this node reach themselves through their Service.
func (b *builder) hairpin(endpoints []Endpoint) {
	for i := range endpoints {
		e := &endpoints[i]
		if !isLocal(e, b.node) {
			continue
		}
		addr := e.Addr.Addr()
		b.member(ipsetutil.Member{
			Set: ipsetutil.LoopBack.Name(addr.Is6()),
			Entry: ipsetutil.Entry{
				Addr: addr, Protocol: uint8(e.Protocol), Port: e.Addr.Port(),
				Source: netip.PrefixFrom(addr, addr.BitLen()),
			},
		})
	}
}

// index is the place of a family in a pair.
func index(ipv6 bool) int {
	if ipv6 {
		return 1
	}
	return 0
}

func familyOf(addrs []netip.Addr, ipv6 bool) []netip.Addr {
	var of []netip.Addr
	for _, a := range addrs {
		if a.Is6() == ipv6 {
			of = append(of, a)
		}
	}
	return of
}

func appendNew[T comparable](list []T, item T) []T {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}

func keyOf(addr netip.Addr, port uint16, protocol ipvsutil.Protocol) ipvsutil.Key {
	return ipvsutil.Key{Addr: netip.AddrPortFrom(addr, port), Protocol: protocol}
}
