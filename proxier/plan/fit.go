package plan

import (
	"fmt"
	"net/netip"

	"kube-ipvs-proxy/ipvsutil"
)

// unfit says why an address can be no Service's address, or "". The API server
// refuses these too, for endpoints as well; manifests and old objects have them.
func unfit(addr netip.Addr) string {
	switch {
	case !addr.IsValid():
		return "is no address"
	case addr.Is4In6():
		return "is an IPv4 address written as IPv6"
	case addr.Zone() != "":
		return "has a zone"
	case addr.IsUnspecified():
		return "is the unspecified address"
	case addr.IsLoopback():
		return "is a loopback address"
	case addr.IsMulticast():
		return "is a multicast address"
	case addr.IsLinkLocalUnicast():
		return "is a link-local address"
	case addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "is the broadcast address"
	}
	return ""
}

// fitPorts returns the ports that can be served. Of two with the same name, number
// or NodePort the first counts.
func (b *builder) fitPorts() []Port {
	all := b.service.Ports
	ports := make([]Port, 0, len(all))
	var names map[PortKey]bool
	var numbers, nodePorts map[portNumber]bool
	if len(all) > 1 { // most Services have one port, and nothing to compare it with
		names, numbers, nodePorts = map[PortKey]bool{}, map[portNumber]bool{}, map[portNumber]bool{}
	}
	for _, p := range all {
		name := PortKey{Name: p.Name, Protocol: p.Protocol}
		number := portNumber{p.Protocol, p.Port}
		if reason := unfitPort(p, names[name], numbers[number]); reason != "" {
			b.problem(portText(p), reason)
			continue
		}
		nodePort := portNumber{p.Protocol, p.NodePort}
		if p.NodePort != 0 && nodePorts[nodePort] {
			b.problem(portText(p), fmt.Sprintf("has the nodePort %d of another port of the Service", p.NodePort))
			p.NodePort = 0
		}
		if len(all) > 1 {
			names[name], numbers[number], nodePorts[nodePort] = true, true, true
		}
		ports = append(ports, p)
	}
	return ports
}

// unfitPort says why a port cannot be served, or "".
func unfitPort(p Port, sameName, sameNumber bool) string {
	switch {
	case p.Protocol != ipvsutil.TCP && p.Protocol != ipvsutil.UDP && p.Protocol != ipvsutil.SCTP:
		return "has a protocol that IPVS cannot balance"
	case p.Port == 0:
		return "has number zero"
	case sameName:
		return "has the name of another port of the Service"
	case sameNumber:
		return "has the number of another port of the Service"
	}
	return ""
}

func portText(p Port) string { return fmt.Sprintf("port %q %d/%s", p.Name, p.Port, p.Protocol) }

type portNumber struct {
	protocol ipvsutil.Protocol
	number   uint16
}

// fitEndpoints returns the endpoints that can be real servers: mostly all, and then it is
// the list that was given.
func (b *builder) fitEndpoints(endpoints []Endpoint) []Endpoint {
	var fit []Endpoint
	for i := range endpoints {
		e := &endpoints[i]
		reason := unfitEndpoint(e)
		if reason != "" {
			if fit == nil {
				fit = append(make([]Endpoint, 0, len(endpoints)), endpoints[:i]...)
			}
			b.problem("endpoint "+e.Addr.String(), reason)
		} else if fit != nil {
			fit = append(fit, *e)
		}
	}
	if fit == nil {
		return endpoints
	}
	return fit
}

// unfitEndpoint says why an endpoint can be no real server, or "".
func unfitEndpoint(e *Endpoint) string {
	if reason := unfit(e.Addr.Addr()); reason != "" {
		return reason
	}
	if e.Addr.Port() == 0 {
		return "has port zero"
	}
	return ""
}

// sourceRanges are the ranges that restrict load-balancer frontends of one family.
// None lets everyone in; so does a range of length zero among them.
func (b *builder) sourceRanges(ipv6 bool) []netip.Prefix {
	if len(b.service.SourceRanges) == 0 {
		return nil
	}
	seen := map[netip.Prefix]bool{}
	var ranges []netip.Prefix
	for _, r := range b.service.SourceRanges {
		switch r = r.Masked(); {
		case !r.IsValid():
			b.problem("loadBalancerSourceRanges", "hold what is no range")
		case r.Addr().Is6() != ipv6 || seen[r]:
		case r.Bits() == 0:
			return nil
		default:
			seen[r] = true
			ranges = append(ranges, r)
		}
	}
	return ranges
}
