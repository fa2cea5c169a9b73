package explain

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// shop is a settled node with one Service of each policy.
func shop() *world {
	w := newWorld()
	w.service("web", externalLocal, endpoint("10.244.1.10:8080", "node-1"), endpoint("10.244.2.10:8080", "node-2"))
	w.settle()
	return w
}

func tcp(s string) ipvsutil.Key { return ipvsutil.Key{Addr: at(s), Protocol: ipvsutil.TCP} }

func TestSettledNodeHasNoDifference(t *testing.T) {
	if found := shop().compare(); found != nil {
		t.Errorf("found %+v", found)
	}
}

// TestCompare damages a settled node in one way after the other.
func TestCompare(t *testing.T) {
	clusterIP, lb := tcp("10.96.0.10:80"), tcp("203.0.113.7:80")
	change := func(o *Observed, key ipvsutil.Key, f func(*Server)) {
		s := o.Servers[key]
		s.RealServers = append([]ipvsutil.RealServerState(nil), s.RealServers...)
		f(&s)
		o.Servers[key] = s
	}
	stranger := tcp("10.96.0.99:80")
	draining := []ipvsutil.RealServerState{{
		RealServer:  ipvsutil.RealServer{Addr: at("10.244.2.99:8080")},
		Connections: ipvsutil.Connections{Active: 2, Inactive: 1},
	}}
	var text strings.Builder
	for _, test := range []struct {
		name   string
		damage func(*Observed)
	}{
		{"device", func(o *Observed) { o.Device = false }},
		{"address gone", func(o *Observed) { delete(o.Bound, clusterIP.Addr.Addr()) }},
		{"address strange", func(o *Observed) { o.Bound[addr("10.96.0.99")] = true }},
		{"address captured too", func(o *Observed) { o.Bound[lb.Addr.Addr()] = true }},
		{"address talked from", func(o *Observed) {
			o.Bound[lb.Addr.Addr()] = true
			o.TalkedFrom = map[netip.Addr]bool{lb.Addr.Addr(): true}
		}},
		{"address leaving", func(o *Observed) {
			o.Bound[lb.Addr.Addr()] = true
			o.Leaving = map[netip.Addr]bool{lb.Addr.Addr(): true}
		}},
		{"route gone", func(o *Observed) { delete(o.Captured, lb.Addr.Addr()) }},
		{"route strange", func(o *Observed) { o.Captured[addr("203.0.113.99")] = true }},
		{"policy rule", func(o *Observed) { o.PolicyRules[1] = false }},
		{"server gone", func(o *Observed) { delete(o.Servers, clusterIP) }},
		{"mark server gone", func(o *Observed) { delete(o.Servers, ipvsutil.MarkKey(1, false)) }},
		{"scheduler", func(o *Observed) { change(o, clusterIP, func(s *Server) { s.Scheduler = "wlc" }) }},
		{"persistence", func(o *Observed) { change(o, clusterIP, func(s *Server) { s.Persistence = 60 }) }},
		{"netmask", func(o *Observed) { change(o, clusterIP, func(s *Server) { s.Foreign = true }) }},
		{"flags", func(o *Observed) { change(o, clusterIP, func(s *Server) { s.Flags = ipvsutil.FlagSched1 }) }},
		{"weight 0", func(o *Observed) { change(o, clusterIP, func(s *Server) { s.RealServers[0].Weight = 0 }) }},
		{"weight 9", func(o *Observed) { change(o, clusterIP, func(s *Server) { s.RealServers[0].Weight = 9 }) }},
		{"tunnel", func(o *Observed) { change(o, clusterIP, func(s *Server) { s.RealServers[0].Foreign = true }) }},
		{"real server gone", func(o *Observed) { change(o, clusterIP, func(s *Server) { s.RealServers = s.RealServers[1:] }) }},
		{"real server strange", func(o *Observed) {
			change(o, clusterIP, func(s *Server) {
				s.RealServers = append(s.RealServers, ipvsutil.RealServerState{RealServer: ipvsutil.RealServer{Addr: at("10.244.9.9:80"), Weight: 1}})
			})
		}},
		{"real server drains", func(o *Observed) {
			change(o, clusterIP, func(s *Server) { s.RealServers = append(s.RealServers, draining...) })
		}},
		{"server strange", func(o *Observed) {
			o.Servers[stranger] = Server{VirtualServer: ipvsutil.VirtualServer{Key: stranger, Scheduler: "rr"}}
		}},
		{"server lingers", func(o *Observed) {
			o.Servers[stranger] = Server{ipvsutil.VirtualServer{Key: stranger, Scheduler: "rr"}, draining}
			o.Bound[stranger.Addr.Addr()] = true
			o.Members["KIPVS-REFUSE"][ipsetutil.Entry{Addr: stranger.Addr.Addr(), Protocol: 6, Port: 80}] = 0
		}},
		{"foreign server", func(o *Observed) {
			o.Owns = func(ipvsutil.Key) bool { return false }
			o.Servers[stranger] = Server{VirtualServer: ipvsutil.VirtualServer{Key: stranger, Scheduler: "rr"}}
		}},
		{"set gone", func(o *Observed) { delete(o.Members, "KUBE-LOOP-BACK") }},
		{"set of another type", func(o *Observed) { o.Mismatched = map[string]string{"KIPVS-REFUSE": "hash:ip family inet maxelem 9"} }},
		{"entry gone", func(o *Observed) { clear(o.Members["KUBE-CLUSTER-IP"]) }},
		{"entry strange", func(o *Observed) { o.Members["KUBE-NODE-PORT-TCP"][ipsetutil.Entry{Port: 22}] = 0 }},
		{"mark", func(o *Observed) {
			for e := range o.Members["KIPVS-SHORT-CIRCUIT"] {
				o.Members["KIPVS-SHORT-CIRCUIT"][e] = 7
			}
		}},
		{"rules", func(o *Observed) {
			o.RuleProblems = []string{"IPv4 nat: jumps from PREROUTING are not as they should be"}
		}},
		{"settings", func(o *Observed) {
			o.Settings = []Setting{
				{Name: "net.ipv4.vs.conntrack", Want: "1", Have: "0", Breaks: "nothing is masqueraded"},
				{Name: "net.netfilter.nf_conntrack_max", Want: "9", Breaks: "new connections are dropped", Advice: true},
				{Name: "net.ipv6.conf.all.forwarding", Want: "1", Have: "0", Breaks: "no matter without IPv6"},
			}
		}},
	} {
		w := shop()
		test.damage(&w.node.Observed)
		text.WriteString("#### " + test.name + "\n")
		for _, d := range w.compare() {
			fine := ""
			if d.Fine {
				fine = "fine: "
			}
			fmt.Fprintf(&text, "%s%s %s (%s): want %s, have %s: %s\n", fine, d.Kind, d.Object, d.Service, d.Want, d.Have, d.Means)
		}
	}
	golden(t, "differences", text.String())
}

// TestUnreadPartsAreNotJudged: what could not be read differs in nothing.
func TestUnreadPartsAreNotJudged(t *testing.T) {
	w := shop()
	w.node.Observed = Observed{Unknown: map[Part]error{}}
	for _, part := range Parts() {
		w.node.Observed.Unknown[part] = errors.New("no root")
	}
	if found := w.compare(); found != nil {
		t.Errorf("found %+v", found)
	}
}

// TestEverySetHasAMeaning, so that no difference is without one.
func TestEverySetHasAMeaning(t *testing.T) {
	for _, set := range ipsetutil.All() {
		if meaningOfEntry(set.Name) == "" || meaningOfExtra(set.Name) == "" {
			t.Errorf("%s has none", set.Name)
		}
	}
}
