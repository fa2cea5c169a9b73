package plan

import (
	"net/netip"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
)

// annotated is a Service with one ready endpoint and its own wishes.
func annotated(change func(*Service)) (Claims, []Problem) {
	s := &Service{
		Name:       ServiceName{"n", "s"},
		ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		Ports:      []Port{{Protocol: ipvsutil.TCP, Port: 80}},
	}
	change(s)
	endpoint := Endpoint{Protocol: ipvsutil.TCP, Addr: netip.MustParseAddrPort("10.244.1.2:8080"), Ready: true, Serving: true}
	return For(s, []Endpoint{endpoint}, Node{Name: "node"}, Config{Scheduler: "rr"})
}

func TestOwnScheduler(t *testing.T) {
	claims, _ := annotated(func(s *Service) { s.Scheduler = "mh" })
	if s := claims.Frontends[0].Server; s.Scheduler != "mh" || s.Flags != ipvsutil.FlagSched2 {
		t.Errorf("server is %v, want mh with its default flag", s)
	}
	claims, problems := annotated(func(s *Service) {
		s.Scheduler, s.SchedulerFlags = "mh", map[string]ipvsutil.Flags{"mh": ipvsutil.FlagSched1, "sh": ipvsutil.FlagSched2}
	})
	if s := claims.Frontends[0].Server; s.Flags != ipvsutil.FlagSched1 || len(problems) != 1 {
		t.Errorf("server is %v, problems %v, want the fallback flag alone and one problem", s, problems)
	}
}

func TestOwnSchedulerThatIsMissing(t *testing.T) {
	s := &Service{
		Name: ServiceName{"n", "s"}, Scheduler: "ovf",
		ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		Ports:      []Port{{Protocol: ipvsutil.TCP, Port: 80}},
	}
	claims, problems := For(s, nil, Node{Name: "node"}, Config{Scheduler: "lc", HasScheduler: func(string) bool { return false }})
	if got := claims.Frontends[0].Server.Scheduler; got != "lc" || len(problems) != 1 {
		t.Errorf("scheduler %s, problems %v, want lc and one problem", got, problems)
	}
}

func TestOwnWeights(t *testing.T) {
	claims, _ := annotated(func(s *Service) { s.Weights = map[netip.Addr]uint32{netip.MustParseAddr("10.244.1.2"): 7} })
	if r := claims.Frontends[0].RealServers[0]; r.Weight != 7 {
		t.Errorf("real server is %v, want weight 7", r)
	}
}

func TestNodeLocalWantsNothing(t *testing.T) {
	if claims, _ := annotated(func(s *Service) { s.NodeLocal = true }); len(claims.Frontends)+len(claims.Bound)+len(claims.Members) > 0 {
		t.Errorf("claims %+v, want none", claims)
	}
}
