package proxier

import (
	"kube-ipvs-proxy/proxier/plan"
)

// Inventory counts what is desired; pairs are IPv4 and IPv6.
type Inventory struct {
	Services                    int
	VirtualServers, RealServers [2]int
	Bound, Captured             [2]int
	SetMembers                  map[string]int
}

// Inventory walks all that is desired, so it is for now and then. Like the other
// views of the loop, it may be called from End only.
func (p *Proxier) Inventory() Inventory {
	i := Inventory{Services: len(p.ledger.Names()), SetMembers: map[string]int{}}
	for key, server := range p.ledger.Servers() {
		f := family(key.IsIPv6())
		i.VirtualServers[f]++
		i.RealServers[f] += len(server.RealServers)
	}
	for m := range p.ledger.Members() {
		i.SetMembers[m.Set]++
	}
	for a := range p.ledger.BoundAddrs() {
		i.Bound[family(a.Is6())]++
	}
	for a := range p.ledger.CapturedAddrs() {
		i.Captured[family(a.Is6())]++
	}
	return i
}

// HealthChecks are those of all Services that have one.
func (p *Proxier) HealthChecks() map[plan.ServiceName]plan.HealthCheck {
	return p.ledger.HealthChecks()
}

func family(ipv6 bool) int {
	if ipv6 {
		return 1
	}
	return 0
}
