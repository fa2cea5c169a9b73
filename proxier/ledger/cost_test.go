package ledger

import (
	"fmt"
	"net/netip"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// service i has a clusterIP, a NodePort with external policy Local, and endpoints.
func service(i, endpoints int) (Owner, plan.Claims) {
	s := &plan.Service{
		Name: plan.ServiceName{Namespace: "bench", Name: fmt.Sprint(i)},
		Type: plan.NodePort, ExternalLocal: true,
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})},
		Ports:      []plan.Port{{Name: "http", Protocol: ipvsutil.TCP, Port: 80, NodePort: uint16(20000 + i)}},
	}
	var list []plan.Endpoint
	for e := range endpoints {
		list = append(list, plan.Endpoint{
			PortName: "http", Protocol: ipvsutil.TCP, NodeName: []string{"n", "m"}[e%2], Ready: true, Serving: true,
			Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 128 + byte(e), byte(i >> 8), byte(i)}), 8080),
		})
	}
	node := netip.MustParseAddr("192.0.2.11")
	claims, _ := plan.For(s, list, plan.Node{Name: "n", Addrs: []netip.Addr{node}, NodePortAddrs: []netip.Addr{node}}, plan.Config{})
	return Owner{Name: s.Name}, claims
}

// filledWith is a ledger of so many Services with four endpoints each.
func filledWith(services int) *Ledger {
	l := New(markBase, markBits)
	for i := range services {
		l.Replace(service(i, 4))
	}
	return l
}

var sizes = []int{100, 1000, 10000}

// TestCostOfOneChange: an endpoint that comes and goes costs the same allocations
// whatever the number of Services.
func TestCostOfOneChange(t *testing.T) {
	owner, four := service(7, 4)
	_, five := service(7, 5)
	costs := map[int]float64{}
	l, filled := New(markBase, markBits), 0
	for _, size := range sizes {
		for ; filled < size; filled++ {
			l.Replace(service(filled, 4))
		}
		costs[size] = testing.AllocsPerRun(50, func() {
			if touched := l.Replace(owner, five); len(touched.Servers) == 0 {
				t.Fatal("the fifth endpoint touches nothing")
			}
			l.Replace(owner, four)
		})
	}
	if small := costs[100]; small == 0 || costs[1000] > small+1 || costs[10000] > small+1 {
		t.Errorf("allocations for one change by number of Services: %v", costs)
	}
}

// TestCostIsLinear: a Service with ten times the ports costs about ten times.
func TestCostIsLinear(t *testing.T) {
	cost := func(frontends int) float64 {
		var c plan.Claims
		for i := range frontends {
			k := ipvsutil.Key{Addr: netip.AddrPortFrom(sharedAddrs[0], uint16(i+1)), Protocol: ipvsutil.TCP}
			port := plan.PortKey{Name: fmt.Sprint(i), Protocol: ipvsutil.TCP}
			c.Frontends = append(c.Frontends, plan.Frontend{
				Server: ipvsutil.VirtualServer{Key: k, Scheduler: "rr"}, Port: port, ShortCircuit: true})
			c.ShortCircuits = append(c.ShortCircuits, plan.ShortCircuit{Port: port})
		}
		return testing.AllocsPerRun(3, func() {
			l := New(markBase, markBits)
			l.Replace(numbered(0), c)
		})
	}
	if small, large := cost(100), cost(1000); large > 15*small {
		t.Errorf("ten times the ports: %.0f allocations, then %.0f", small, large)
	}
}

func BenchmarkReplace(b *testing.B) {
	owner, four := service(7, 4)
	_, five := service(7, 5)
	for _, size := range sizes {
		b.Run(fmt.Sprintf("%dservices", size), func(b *testing.B) {
			l := filledWith(size)
			b.ReportAllocs()
			for b.Loop() {
				l.Replace(owner, five)
				l.Replace(owner, four)
			}
		})
	}
}

func BenchmarkFill(b *testing.B) {
	for _, size := range sizes {
		b.Run(fmt.Sprintf("%dservices", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				filledWith(size)
			}
		})
	}
}
