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
	if service == nil || service.Type == ExternalName {
		return Claims{}, nil
	}
	b := newBuilder(service, node, config)
	byPort := groupByPort(endpoints)
	for _, ipv6 := range []bool{false, true} {
		clusterIP, ok := clusterIPOf(service, ipv6)
		if !ok {
			continue
		}
		if reason := unfit(clusterIP); reason != "" {
			b.problem("clusterIP "+clusterIP.String(), reason)
			continue
		}
		for _, port := range service.Ports {
			b.port(clusterIP, port, byPort[PortKey{port.Name, port.Protocol, ipv6}])
		}
	}
	b.healthCheck(endpoints)
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

// unfit says why an address can be no Service's address, or "".
func unfit(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return "is no address"
	case addr.IsUnspecified():
		return "is the unspecified address"
	case addr.IsLoopback():
		return "is a loopback address"
	case addr.IsMulticast():
		return "is a multicast address"
	case addr.IsLinkLocalUnicast():
		return "is a link-local address"
	case addr.Is4In6():
		return "is an IPv4 address written as IPv6"
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "is the broadcast address"
	}
	return ""
}

// builder collects the claims of one Service. The maps find what is claimed
// already: a Service may have thousands of frontends and members.
type builder struct {
	service   *Service
	node      Node
	config    Config
	claims    Claims
	problems  []Problem
	frontends map[ipvsutil.Key]int // index in claims.Frontends
	members   map[ipsetutil.Member]bool
}

func newBuilder(service *Service, node Node, config Config) *builder {
	return &builder{
		service: service, node: node, config: config,
		frontends: map[ipvsutil.Key]int{}, members: map[ipsetutil.Member]bool{},
	}
}

func (b *builder) problem(part, reason string) {
	b.problems = append(b.problems, Problem{Service: b.service.Name, Part: part, Reason: reason})
}

// port claims every frontend of one port in the family of clusterIP.
func (b *builder) port(clusterIP netip.Addr, port Port, endpoints []Endpoint) {
	chosen := selectEndpoints(endpoints, b.node)
	b.hairpin(endpoints)
	b.bind(clusterIP)
	b.internal(clusterIP, port, chosen)

	ipv6 := clusterIP.Is6()
	external := 0
	for _, addr := range b.external(b.service.ExternalIPs, "externalIP", ipv6) {
		b.frontend(addr, port.Port, port, chosen, externalIPMembers)
		external++
	}
	for _, addr := range b.external(b.service.LoadBalancerIPs, "load-balancer address", ipv6) {
		b.frontend(addr, port.Port, port, chosen, loadBalancerMembers)
		external++
	}
	if port.NodePort != 0 {
		for _, addr := range familyOf(b.node.NodePortAddrs, ipv6) {
			b.frontend(addr, port.NodePort, port, chosen, nodePortMembers)
			external++
		}
	}
	if external > 0 && b.externalLocal() && len(chosen.cluster) > 0 {
		b.claims.ShortCircuits = append(b.claims.ShortCircuits, b.shortCircuit(port, ipv6, chosen))
	}
}

// external returns the addresses of one family that can be served, and claims
// them: nothing for an address of the node's own devices, else bound or captured.
func (b *builder) external(addrs []netip.Addr, what string, ipv6 bool) []netip.Addr {
	var fit []netip.Addr
	for _, addr := range familyOf(addrs, ipv6) {
		if reason := unfit(addr); reason != "" {
			b.problem(what+" "+addr.String(), reason)
			continue
		}
		fit = append(fit, addr)
		switch {
		case slices.Contains(b.node.Addrs, addr):
		case b.config.BindExternal:
			b.bind(addr)
		default:
			b.claims.Captured = appendNew(b.claims.Captured, addr)
		}
	}
	return fit
}

// captured reports that the frontends of an external address need the capture rule.
func (b *builder) captured(addr netip.Addr) bool {
	return slices.Contains(b.claims.Captured, addr)
}

func (b *builder) bind(addr netip.Addr) {
	if slices.Contains(b.claims.Bound, addr) {
		return
	}
	b.claims.Bound = append(b.claims.Bound, addr)
	b.member(ipsetutil.Member{
		Set:   ipsetutil.IPVSIPs.Name(addr.Is6()),
		Entry: ipsetutil.Entry{Addr: addr},
	})
}

func (b *builder) member(m ipsetutil.Member) {
	if !b.members[m] {
		b.members[m] = true
		b.claims.Members = append(b.claims.Members, m)
	}
}

// externalLocal: the policy counts only for a Service that is reachable from
// outside (KEP-2086; the API server refuses it elsewhere, stale objects have it).
func (b *builder) externalLocal() bool {
	s := b.service
	return s.ExternalLocal && (s.Type != ClusterIP || len(s.ExternalIPs) > 0)
}

// hairpin lets endpoints on this node reach themselves through their Service.
func (b *builder) hairpin(endpoints []Endpoint) {
	for _, e := range endpoints {
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
