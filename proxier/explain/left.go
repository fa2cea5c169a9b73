package explain

import (
	"net/netip"
	"slices"

	"kube-ipvs-proxy/proxier/plan"
)

// WhyLeft says why an endpoint is no real server any more, or takes no new connections;
// service is nil when nobody has the frontend.
func WhyLeft(service *plan.Service, endpoints []plan.Endpoint, node plan.Node, kind Kind, addr netip.AddrPort) string {
	if service == nil {
		return "its Service, or the port of it, is gone"
	}
	at := slices.IndexFunc(endpoints, func(e plan.Endpoint) bool { return e.Addr == addr })
	if at < 0 {
		return "it is no endpoint of the Service any more"
	}
	e := endpoints[at]
	policy := service.ExternalLocal
	if kind == ClusterIP {
		policy = service.InternalLocal
	}
	weight, weighed := service.Weights[addr.Addr()]
	switch {
	case e.Terminating && e.Serving:
		return "its pod is terminating"
	case e.Terminating:
		return "its pod is terminating and serves no more"
	case !e.Ready:
		return "its pod is not ready"
	case weighed && weight == 0:
		return "the annotation weights gives it 0"
	case policy && e.NodeName != node.Name && kind != ShortCircuit:
		return "it is on " + orUnknown(e.NodeName) + ", and the traffic policy is Local"
	}
	return "it is not chosen any more (hints)"
}
