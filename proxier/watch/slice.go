package watch

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"unique"

	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-ipvs-proxy/proxier/plan"
)

// labelHeadless marks the EndpointSlices of headless Services.
const labelHeadless = "service.kubernetes.io/headless"

// sliceOwner names the Service that s belongs to. It is false for a slice that is
// to be ignored.
func sliceOwner(s *discoveryv1.EndpointSlice, r *reports) (plan.ServiceName, bool) {
	if _, headless := s.Labels[labelHeadless]; headless {
		return plan.ServiceName{}, false
	}
	name := s.Labels[discoveryv1.LabelServiceName]
	if name == "" {
		r.add("", "has no label %s, so it belongs to no Service", discoveryv1.LabelServiceName)
		return plan.ServiceName{}, false
	}
	return plan.ServiceName{Namespace: s.Namespace, Name: name}, true
}

// endpoints translates one slice, sorted and without repetitions; see merge for
// several slices.
func endpoints(s *discoveryv1.EndpointSlice, r *reports) []plan.Endpoint {
	switch s.AddressType {
	case discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6:
	default:
		r.add("addressType", "%s is not served; it must be IPv4 or IPv6", clip(string(s.AddressType)))
		return nil
	}
	ports := slicePorts(s.Ports, r)
	out := make([]plan.Endpoint, 0, len(s.Endpoints)*len(ports))
	for i := range s.Endpoints {
		in := &s.Endpoints[i]
		if len(in.Addresses) == 0 {
			continue
		}
		// Consumers may use the first address only (discovery/v1).
		addr, err := endpointAddr(in.Addresses[0], s.AddressType)
		if err != nil {
			r.add("endpoint "+clip(in.Addresses[0]), "%v", err)
			continue
		}
		template := endpoint(in)
		for _, port := range ports {
			e := template
			e.PortName, e.Protocol = port.Name, port.Protocol
			e.Addr = netip.AddrPortFrom(addr, port.Port)
			out = append(out, e)
		}
	}
	return merge(out)
}

// slicePorts returns the ports that have a name and a number; one without either
// stands for nothing that a Service port could match.
func slicePorts(in []discoveryv1.EndpointPort, r *reports) []plan.Port {
	out := make([]plan.Port, 0, len(in))
	for _, p := range in {
		if p.Name == nil || p.Port == nil {
			continue
		}
		port := plan.Port{Name: intern(*p.Name)}
		if p.Protocol != nil {
			proto, ok := protocol(*p.Protocol)
			if !ok {
				r.add("port "+clip(*p.Name), "protocol %s is unknown", clip(string(*p.Protocol)))
				continue
			}
			port.Protocol = proto
		} else {
			port.Protocol, _ = protocol("")
		}
		var err error
		if port.Port, err = parsePort(*p.Port); err != nil {
			r.add("port "+clip(*p.Name), "port %v", err)
			continue
		}
		out = append(out, port)
	}
	return out
}

// endpointAddr reads the address of an endpoint of a slice of the given type. The
// API server allows no link-local endpoints either.
func endpointAddr(text string, family discoveryv1.AddressType) (netip.Addr, error) {
	addr, err := parseUsable(text)
	switch {
	case err != nil:
		return addr, err
	case addr.IsLinkLocalUnicast():
		return addr, fmt.Errorf("is a link-local address")
	case familyName(addr) != string(family):
		return addr, fmt.Errorf("is not an %s address, as addressType says", family)
	}
	return addr, nil
}

// endpoint translates all but address and port. What is not said about an endpoint
// counts as ready and serving, and not as terminating (discovery/v1).
func endpoint(in *discoveryv1.Endpoint) plan.Endpoint {
	e := plan.Endpoint{
		Ready:       in.Conditions.Ready == nil || *in.Conditions.Ready,
		Serving:     in.Conditions.Serving == nil || *in.Conditions.Serving,
		Terminating: in.Conditions.Terminating != nil && *in.Conditions.Terminating,
	}
	if in.NodeName != nil {
		e.NodeName = intern(*in.NodeName)
	}
	if in.TargetRef != nil && in.TargetRef.Kind == "Pod" {
		e.Pod = strings.Clone(in.TargetRef.Name)
	}
	if in.Hints != nil {
		for _, z := range in.Hints.ForZones {
			e.Zones = append(e.Zones, intern(z.Name))
		}
		for _, n := range in.Hints.ForNodes {
			e.Nodes = append(e.Nodes, intern(n.Name))
		}
	}
	return e
}

// intern returns the one copy of s that all endpoints share: a cluster has many
// endpoints and few nodes, zones and port names.
func intern(s string) string { return unique.Make(s).Value() }

// merge sorts endpoints of one Service by port name, protocol and address, and
// leaves one of those that are equal in all three: one that is not terminating
// before one that is, because a new pod may already run on the address of a
// terminating one; then the readier one. The order of the input does not matter.
func merge(list []plan.Endpoint) []plan.Endpoint {
	slices.SortStableFunc(list, func(a, b plan.Endpoint) int {
		return cmp.Or(compareEndpoints(&a, &b), preferEndpoints(&a, &b))
	})
	return slices.CompactFunc(list, func(a, b plan.Endpoint) bool { return compareEndpoints(&a, &b) == 0 })
}

// compareEndpoints orders by what must be unique.
func compareEndpoints(a, b *plan.Endpoint) int {
	return cmp.Or(cmp.Compare(a.PortName, b.PortName), cmp.Compare(a.Protocol, b.Protocol), a.Addr.Compare(b.Addr))
}

// preferEndpoints puts the one to be used first.
func preferEndpoints(a, b *plan.Endpoint) int {
	return cmp.Or(first(!a.Terminating, !b.Terminating), first(a.Ready, b.Ready), first(a.Serving, b.Serving),
		cmp.Compare(a.NodeName, b.NodeName), slices.Compare(a.Zones, b.Zones), slices.Compare(a.Nodes, b.Nodes),
		cmp.Compare(a.Pod, b.Pod))
}

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// equalEndpoints compares two merged lists.
func equalEndpoints(a, b []plan.Endpoint) bool {
	return slices.EqualFunc(a, b, func(x, y plan.Endpoint) bool {
		return x.Ready == y.Ready && x.Serving == y.Serving && x.Terminating == y.Terminating &&
			compareEndpoints(&x, &y) == 0 && preferEndpoints(&x, &y) == 0
	})
}
