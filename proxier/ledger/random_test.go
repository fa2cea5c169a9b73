package ledger

import (
	"net/netip"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// dice draws claims from bytes, so that the random tests and the fuzzer share one
// generator. When the bytes are used up every throw is zero.
type dice struct{ bytes []byte }

// n throws a number below sides.
func (d *dice) n(sides int) int {
	if len(d.bytes) == 0 {
		return 0
	}
	b := d.bytes[0]
	d.bytes = d.bytes[1:]
	return int(b) % sides
}

func (d *dice) yes() bool { return d.n(2) == 1 }

// The pools are small, so that owners meet.
var (
	ownerNames = []plan.ServiceName{
		{Namespace: "a", Name: "one"}, {Namespace: "a", Name: "two"}, {Namespace: "b", Name: "one"},
		{Namespace: "b", Name: "three"}, {}, // the node
	}
	keys = []ipvsutil.Key{
		key("10.96.0.1:80", ipvsutil.TCP), key("10.96.0.1:80", ipvsutil.UDP), key("203.0.113.1:80", ipvsutil.TCP),
		key("192.0.2.11:30080", ipvsutil.TCP), key("192.0.2.12:30080", ipvsutil.TCP), key("[fd00::1]:80", ipvsutil.TCP),
	}
	sharedAddrs = []netip.Addr{
		netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("203.0.113.1"), netip.MustParseAddr("fd00::1"),
	}
	exclusive = []ipsetutil.Kind{ipsetutil.ClusterIP, ipsetutil.DropOutside, ipsetutil.Refuse, ipsetutil.NodePortTCP}
)

func key(addr string, p ipvsutil.Protocol) ipvsutil.Key {
	return ipvsutil.Key{Addr: netip.MustParseAddrPort(addr), Protocol: p}
}

// owner n is created at one of two moments, so that names break ties.
func owner(n, created int) Owner {
	return Owner{Name: ownerNames[n], Created: time.Unix(int64(created), 0)}
}

func randomOwner(d *dice) Owner { return owner(d.n(len(ownerNames)), d.n(2)) }

// randomClaims draws claims that a plan could make: each frontend once, and a short
// circuit for each port that a frontend leads to.
func randomClaims(d *dice) plan.Claims {
	var c plan.Claims
	ports := map[plan.PortKey]bool{}
	for _, k := range keys {
		if d.n(3) != 0 {
			continue
		}
		f := plan.Frontend{
			Server:      ipvsutil.VirtualServer{Key: k, Scheduler: []string{"rr", "lc"}[d.n(2)]},
			RealServers: randomReals(d, k.IsIPv6()),
			Port:        plan.PortKey{Name: []string{"http", "alt"}[d.n(2)], Protocol: k.Protocol, IPv6: k.IsIPv6()},
		}
		for _, kind := range exclusive {
			if d.yes() {
				f.Members = append(f.Members, plan.MemberOf(kind, k))
			}
		}
		if f.ShortCircuit = d.yes(); f.ShortCircuit && !ports[f.Port] {
			ports[f.Port] = true
			c.ShortCircuits = append(c.ShortCircuits, plan.ShortCircuit{
				Port: f.Port, Server: ipvsutil.VirtualServer{Scheduler: "rr"}, RealServers: randomReals(d, k.IsIPv6()),
			})
		}
		c.Frontends = append(c.Frontends, f)
	}
	for _, a := range sharedAddrs {
		if d.yes() {
			c.Bound = append(c.Bound, a)
		}
		if d.yes() {
			c.Captured = append(c.Captured, a)
		}
		if d.yes() {
			c.Members = append(c.Members, plan.MemberOf(ipsetutil.LoopBack, ipvsutil.Key{
				Addr: netip.AddrPortFrom(a, 8080), Protocol: ipvsutil.TCP}))
		}
	}
	if d.n(4) == 1 {
		c.HealthCheck = plan.HealthCheck{Port: 32000, LocalReady: [2]int{d.n(3), 0}}
		c.NoLocal = plan.NoLocal{Internal: [2]int{d.n(3), 0}, External: [2]int{0, d.n(3)}}
	}
	return c
}

func randomReals(d *dice, ipv6 bool) []ipvsutil.RealServer {
	base := "10.244.0.1"
	if ipv6 {
		base = "fd00:1::1"
	}
	addr := netip.MustParseAddr(base)
	var reals []ipvsutil.RealServer
	for range d.n(3) {
		reals = append(reals, ipvsutil.RealServer{Addr: netip.AddrPortFrom(addr, 8080), Weight: 1})
		addr = addr.Next()
	}
	return reals
}
