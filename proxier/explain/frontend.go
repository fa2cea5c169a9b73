package explain

import (
	"slices"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

// Kind is what a frontend is to its Service.
type Kind string

// The kinds.
const (
	ClusterIP    Kind = "ClusterIP"
	ExternalIP   Kind = "externalIP"
	LoadBalancer Kind = "LoadBalancer"
	NodePort     Kind = "NodePort"
	HealthCheck  Kind = "health check"
	ShortCircuit Kind = "short circuit"
)

// KindOf returns the kind of a desired server; empty when nobody desires it.
func KindOf(desired *ledger.Ledger, key ipvsutil.Key) Kind {
	server, ok := desired.Server(key)
	if !ok {
		return ""
	}
	if key.Mark != 0 {
		return ShortCircuit
	}
	in := func(kinds ...ipsetutil.Kind) bool {
		return slices.ContainsFunc(kinds, func(k ipsetutil.Kind) bool {
			_, ok := desired.Member(plan.MemberOf(k, key))
			return ok
		})
	}
	switch {
	case in(ipsetutil.ClusterIP):
		return ClusterIP
	case in(ipsetutil.LoadBalancer):
		return LoadBalancer
	case in(ipsetutil.ExternalIP, ipsetutil.ExternalIPLocal):
		return ExternalIP
	case desired.HealthCheck(server.Owner).Port == key.Addr.Port() && len(server.RealServers) == 1 && in(ipsetutil.Capture):
		return HealthCheck
	}
	return NodePort
}

// PortOf returns the Service's port that a frontend of a kind serves; false when the
// Service has none such.
func PortOf(service *plan.Service, kind Kind, key ipvsutil.Key) (plan.Port, bool) {
	if service == nil {
		return plan.Port{}, false
	}
	for _, p := range service.Ports {
		number := p.Port
		if kind == NodePort {
			number = p.NodePort
		}
		if number == key.Addr.Port() && p.Protocol == key.Protocol {
			return p, true
		}
	}
	return plan.Port{}, false
}
