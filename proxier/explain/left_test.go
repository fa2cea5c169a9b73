package explain

import (
	"net/netip"
	"testing"

	"kube-ipvs-proxy/proxier/plan"
)

func TestWhyLeft(t *testing.T) {
	service := func(change ...func(*plan.Service)) *plan.Service {
		s := &plan.Service{}
		for _, c := range change {
			c(s)
		}
		return s
	}
	pod := "10.244.2.10:8080"
	for _, test := range []struct {
		service  *plan.Service
		endpoint plan.Endpoint
		kind     Kind
		want     string
	}{
		{nil, endpoint(pod, "node-2"), ClusterIP, "its Service, or the port of it, is gone"},
		{service(), endpoint("10.244.2.11:8080", "node-2"), ClusterIP, "it is no endpoint of the Service any more"},
		{service(), endpoint(pod, "node-2", func(e *plan.Endpoint) { e.Ready, e.Terminating = false, true }), ClusterIP, "its pod is terminating"},
		{service(), endpoint(pod, "node-2", notReady, func(e *plan.Endpoint) { e.Terminating = true }), ClusterIP, "its pod is terminating and serves no more"},
		{service(), endpoint(pod, "node-2", notReady), ClusterIP, "its pod is not ready"},
		{service(func(s *plan.Service) { s.Weights = map[netip.Addr]uint32{addr("10.244.2.10"): 0} }), endpoint(pod, "node-2"), ClusterIP, "the annotation weights gives it 0"},
		{service(func(s *plan.Service) { s.InternalLocal = true }), endpoint(pod, "node-2"), ClusterIP, "it is on node-2, and the traffic policy is Local"},
		{service(func(s *plan.Service) { s.InternalLocal = true }), endpoint(pod, "node-2"), NodePort, "it is not chosen any more (hints)"},
		{service(func(s *plan.Service) { s.ExternalLocal = true }), endpoint(pod, ""), LoadBalancer, "it is on an unknown place, and the traffic policy is Local"},
		{service(func(s *plan.Service) { s.ExternalLocal = true }), endpoint(pod, "node-2"), ShortCircuit, "it is not chosen any more (hints)"},
	} {
		if got := WhyLeft(test.service, []plan.Endpoint{test.endpoint}, thisNode, test.kind, at(pod)); got != test.want {
			t.Errorf("%+v %+v: %q, want %q", test.service, test.endpoint, got, test.want)
		}
	}
}
