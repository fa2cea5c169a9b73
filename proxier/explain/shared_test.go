package explain

import (
	"testing"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// TestShared: of a node that kube-proxy serves only what it has, too, is judged.
func TestShared(t *testing.T) {
	w := newWorld()
	w.service("web", func(s *plan.Service) {
		externalLocal(s)
		s.HealthCheckNodePort = 32000
	}, endpoint("10.244.1.10:8080", "node-1"))
	w.settle()
	o := &w.node.Observed
	for key := range o.Servers {
		if key.Mark != 0 || key.Addr.Port() == 32000 {
			delete(o.Servers, key)
		}
	}
	for _, set := range ipsetutil.All() {
		if len(set.Name) > len(ownPrefix) && set.Name[:len(ownPrefix)] == ownPrefix {
			delete(o.Members, set.Name)
		}
	}
	o.PolicyRules, o.Captured, o.RuleProblems = [2]bool{}, nil, []string{"IPv4 nat: chain x is missing"}
	all := w.compare()
	if shared := Shared(w.node.Desired, all); len(shared) != 0 || len(all) < 5 {
		t.Errorf("of %d differences: %+v", len(all), shared)
	}
	key := ipvsutil.Key{Addr: at("10.96.0.10:80"), Protocol: ipvsutil.TCP}
	o.Servers[key].RealServers[0].Weight = 0
	member := plan.MemberOf(ipsetutil.ClusterIP, key)
	delete(o.Members[member.Set], member.Entry)
	delete(o.Bound, addr("10.96.0.10"))
	if shared := Shared(w.node.Desired, w.compare()); len(shared) != 3 {
		t.Errorf("what kube-proxy would mend: %+v", shared)
	}
}
