package ledger

import (
	"maps"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// Counts says how much is desired; pairs are IPv4 and IPv6. It is kept while claims
// change, so that to know it costs nothing.
type Counts struct {
	// Services are those that claim something.
	Services                    int
	VirtualServers, RealServers [2]int
	Bound, Captured             [2]int
	// Members counts those of each set.
	Members map[string]int
	// NoLocal are ports without an endpoint where their traffic policies want one.
	NoLocal plan.NoLocal
}

// Counts returns how much is desired now.
func (l *Ledger) Counts() Counts {
	c := l.counts
	c.Members = maps.Clone(c.Members)
	c.Services = len(l.claims)
	if _, node := l.claims[plan.ServiceName{}]; node {
		c.Services--
	}
	return c
}

// VirtualServers returns how many virtual servers of a family are desired.
func (l *Ledger) VirtualServers(ipv6 bool) int { return l.counts.VirtualServers[family(ipv6)] }

// putServer records the desired server of a key, dropServer that there is none.
func (l *Ledger) putServer(key ipvsutil.Key, s Server) {
	l.countServer(key, -1)
	l.servers[key] = s
	l.countServer(key, 1)
}

func (l *Ledger) dropServer(key ipvsutil.Key) {
	l.countServer(key, -1)
	delete(l.servers, key)
}

func (l *Ledger) countServer(key ipvsutil.Key, n int) {
	if s, ok := l.servers[key]; ok {
		l.counts.VirtualServers[family(key.IsIPv6())] += n
		l.counts.RealServers[family(key.IsIPv6())] += n * len(s.RealServers)
	}
}

// countMember takes down that a member came (1) or went (-1).
func (l *Ledger) countMember(m ipsetutil.Member, n int) {
	l.counts.Members[m.Set] += n
	if l.counts.Members[m.Set] == 0 {
		delete(l.counts.Members, m.Set)
	}
}

// countNoLocal takes down what an owner counts now in place of before.
func (l *Ledger) countNoLocal(before, now plan.NoLocal) {
	sum := &l.counts.NoLocal
	for f := range sum.Internal {
		sum.Internal[f] += now.Internal[f] - before.Internal[f]
		sum.External[f] += now.External[f] - before.External[f]
	}
}

func family(ipv6 bool) int {
	if ipv6 {
		return 1
	}
	return 0
}

// setHealth records the health check of a Service, and that it is another than before.
func (l *Ledger) setHealth(name plan.ServiceName, now plan.HealthCheck) {
	if l.health[name] == now {
		return
	}
	l.health[name] = now
	if now.Port == 0 {
		delete(l.health, name)
	}
	l.healthChanges[name] = true
}

// TakeHealthChanges returns the health checks of the Services whose is another than
// when it was called last; one without a port is gone. Nil when there is none.
func (l *Ledger) TakeHealthChanges() map[plan.ServiceName]plan.HealthCheck {
	if len(l.healthChanges) == 0 {
		return nil
	}
	changes := make(map[plan.ServiceName]plan.HealthCheck, len(l.healthChanges))
	for name := range l.healthChanges {
		changes[name] = l.health[name]
	}
	l.healthChanges = map[plan.ServiceName]bool{}
	return changes
}
