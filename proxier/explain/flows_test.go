package explain

import (
	"strings"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

func TestStaleFlows(t *testing.T) {
	w := newWorld()
	udp := func(e *plan.Endpoint) { e.Protocol = ipvsutil.UDP }
	w.service("dns", func(s *plan.Service) {
		externalLocal(s)
		s.Ports[0].Protocol = ipvsutil.UDP
	}, endpoint("10.244.1.10:8080", "node-1", udp), endpoint("10.244.2.10:8080", "node-2", udp))
	w.settle()
	key := func(s string) ipvsutil.Key { return ipvsutil.Key{Addr: at(s), Protocol: ipvsutil.UDP} }
	gone := Flow{Frontend: key("10.96.0.10:80"), Real: at("10.244.9.9:8080")}
	found := StaleFlows(w.node.Desired, []Flow{
		gone, gone,
		{Frontend: key("10.96.0.10:80"), Real: at("10.244.1.10:8080")},
		{Frontend: key("203.0.113.7:80"), Real: at("10.244.2.10:8080")}, // of a client on this node
		{Frontend: tcp("10.96.0.10:80"), Real: at("10.244.9.9:8080")},
		{Frontend: key("192.0.2.99:53"), Real: at("192.0.2.99:53")},
	})
	if len(found) != 1 || found[0].Object != "10.96.0.10:80/udp -> 10.244.9.9:8080" || found[0].Have != "2 in conntrack" {
		t.Fatalf("found %+v", found)
	}
	w.node.Differences = found
	s := w.services["dns"]
	paths := Explain(Question{Name: s.Name, Service: s, Endpoints: w.endpoints["dns"], To: addr("10.96.0.10")}, w.node)
	if len(paths) != 1 || !strings.Contains(paths[0].Text(), "verdict   differs from plan: flow 10.96.0.10:80/udp -> 10.244.9.9:8080") {
		t.Errorf("paths %+v", paths)
	}
}
