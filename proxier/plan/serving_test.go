package plan_test

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// Of UDP the endpoints that still serve are known beside those that are chosen; TCP
// connections end by themselves and need no such list.
func TestServing(t *testing.T) {
	w := parseWorld(t, `
		type NodePort
		etp Local
		clusterIP 10.96.0.1
		port dns UDP 53 30053
		port web TCP 80 30080
		endpoint dns UDP 10.244.0.1:53 n ready
		endpoint dns UDP 10.244.0.2:53 other finishing
		endpoint dns UDP 10.244.0.3:53 other gone
		endpoint dns UDP 10.244.0.4:53 other unready
		endpoint web TCP 10.244.0.1:80 n ready
		endpoint web TCP 10.244.0.2:80 other finishing
	`)
	timeout := time.Minute
	w.service.DrainTimeout = &timeout
	claims, problems := plan.For(&w.service, w.endpoints, w.node, w.config)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []netip.AddrPort{netip.MustParseAddrPort("10.244.0.1:53"), netip.MustParseAddrPort("10.244.0.2:53")}
	for _, f := range claims.Frontends {
		if udp := f.Server.Key.Protocol == ipvsutil.UDP; udp != slices.Equal(f.Serving, want) || !udp && f.Serving != nil {
			t.Errorf("%v: %v serve", f.Server.Key, f.Serving)
		}
	}
	for _, s := range claims.ShortCircuits {
		if udp := s.Port.Protocol == ipvsutil.UDP; udp != slices.Equal(s.Serving, want) {
			t.Errorf("short circuit of %v: %v serve", s.Port, s.Serving)
		}
	}
	if len(claims.ShortCircuits) != 2 || claims.DrainTimeout != &timeout {
		t.Errorf("%+v", claims)
	}
}
