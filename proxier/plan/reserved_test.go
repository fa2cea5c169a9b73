package plan

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
)

// Nobody takes the API server from the node by an external address: neither the port at
// which it is reached, nor, where addresses are bound, the address with all ports.
func TestReservedFrontends(t *testing.T) {
	server := netip.MustParseAddrPort("172.30.0.9:6443")
	s := &Service{
		Name: ServiceName{"n", "s"}, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.1")},
		ExternalIPs:     []netip.Addr{server.Addr(), netip.MustParseAddr("203.0.113.7")},
		LoadBalancerIPs: []netip.Addr{server.Addr()},
		Ports: []Port{
			{Name: "api", Protocol: ipvsutil.TCP, Port: 6443}, {Name: "udp", Protocol: ipvsutil.UDP, Port: 6443},
			{Name: "web", Protocol: ipvsutil.TCP, Port: 80},
		},
	}
	config := Config{Reserved: []netip.AddrPort{server, netip.MustParseAddrPort("10.96.0.1:6443")}}
	for _, test := range []struct {
		name string
		bind bool
		node []netip.Addr
		want string // frontends on the server's address
	}{
		{"captured", false, nil, "172.30.0.9:6443/udp 172.30.0.9:80/tcp"},
		{"bound", true, nil, ""},
		{"on this node", true, []netip.Addr{server.Addr()}, "172.30.0.9:6443/udp 172.30.0.9:80/tcp"},
	} {
		t.Run(test.name, func(t *testing.T) {
			config.BindExternal = test.bind
			claims, problems := For(s, nil, Node{Name: "node", Addrs: test.node}, config)
			var got []string
			others := 0
			for _, f := range claims.Frontends {
				if f.Server.Key.Addr.Addr() == server.Addr() {
					got = append(got, f.Server.Key.String())
				} else {
					others++
				}
			}
			slices.Sort(got)
			if strings.Join(got, " ") != test.want || others != 6 {
				t.Errorf("frontends %v and %d others, want %q and the 6 of ClusterIP and other address", got, others, test.want)
			}
			if len(problems) == 0 || test.want == "" && slices.Contains(claims.Bound, server.Addr()) {
				t.Errorf("problems %v, bound %v", problems, claims.Bound)
			}
		})
	}
}
