package plan_test

import (
	"net/netip"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// wide is a Service with so many ports, externalIPs and endpoints.
func wide(ports, externalIPs, endpoints int) world {
	w := fixture()
	w.service.ClusterIPs = addrs("10.96.0.80")
	for i := range externalIPs {
		w.service.ExternalIPs = append(w.service.ExternalIPs, nth("198.18.0.0", i+1))
	}
	for i := range ports {
		w.service.Ports = append(w.service.Ports,
			plan.Port{Name: nth("0.0.0.0", i).String(), Protocol: ipvsutil.TCP, Port: uint16(i + 1)})
	}
	for i := range endpoints {
		w.endpoints = append(w.endpoints, plan.Endpoint{
			PortName: "0.0.0.0", Protocol: ipvsutil.TCP, NodeName: "n", Ready: true, Serving: true,
			Addr: netip.AddrPortFrom(nth("10.244.0.0", i+1), 8080),
		})
	}
	return w
}

// nth is the i-th IPv4 address after base.
func nth(base string, i int) netip.Addr {
	b := netip.MustParseAddr(base).As4()
	b[1], b[2], b[3] = b[1]+byte(i>>16), byte(i>>8), byte(i)
	return netip.AddrFrom4(b)
}

func planOnce(w world) (plan.Claims, []plan.Problem) {
	return plan.For(&w.service, w.endpoints, w.node, w.config)
}

// TestCostIsLinear: ten times the ports, externalIPs or endpoints cost about ten
// times the allocations, never a hundred.
func TestCostIsLinear(t *testing.T) {
	for _, test := range []struct {
		name         string
		small, large world
	}{
		{"ports", wide(100, 7, 1), wide(1000, 7, 1)},
		{"externalIPs", wide(10, 70, 1), wide(10, 700, 1)},
		{"ports and externalIPs", wide(100, 70, 1), wide(1000, 70, 1)},
		{"endpoints", wide(1, 1, 100), wide(1, 1, 1000)},
	} {
		small := testing.AllocsPerRun(1, func() { planOnce(test.small) })
		large := testing.AllocsPerRun(1, func() { planOnce(test.large) })
		if small == 0 || large > 15*small {
			t.Errorf("ten times the %s: %.0f allocations, then %.0f", test.name, small, large)
		}
	}
}

// TestWide: the widest Service that is known from the field is planned whole.
func TestWide(t *testing.T) {
	claims, problems := planOnce(wide(1000, 70, 10))
	if len(claims.Frontends) != 1000*71 || len(claims.Captured) != 70 || len(problems) != 0 {
		t.Errorf("%d frontends, %d captured addresses, problems %v; want 71000, 70 and none",
			len(claims.Frontends), len(claims.Captured), problems)
	}
}

func BenchmarkFor(b *testing.B) {
	for _, bench := range []struct {
		name string
		w    world
	}{
		{"1port", wide(1, 0, 4)},
		{"1000endpoints", wide(1, 0, 1000)},
		{"1000ports", wide(1000, 0, 4)},
		{"1000ports70externalIPs", wide(1000, 70, 4)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				planOnce(bench.w)
			}
		})
	}
}
