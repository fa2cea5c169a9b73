package ledger

import (
	"testing"

	"kube-ipvs-proxy/proxier/plan"
)

// walked is Counts as it is when all that is desired is walked through.
func (l *Ledger) walked() Counts {
	c := Counts{Services: len(l.Names()), Members: map[string]int{}}
	for key, server := range l.Servers() {
		c.VirtualServers[family(key.IsIPv6())]++
		c.RealServers[family(key.IsIPv6())] += len(server.RealServers)
	}
	for m := range l.Members() {
		c.Members[m.Set]++
	}
	for a := range l.BoundAddrs() {
		c.Bound[family(a.Is6())]++
	}
	for a := range l.CapturedAddrs() {
		c.Captured[family(a.Is6())]++
	}
	for _, of := range l.claims {
		for f := range c.NoLocal.Internal {
			c.NoLocal.Internal[f] += of.NoLocal.Internal[f]
			c.NoLocal.External[f] += of.NoLocal.External[f]
		}
	}
	return c
}

func TestHealthChangesAreToldOnce(t *testing.T) {
	l := New(markBase, markBits)
	web := Owner{Name: plan.ServiceName{Namespace: "shop", Name: "web"}}
	check := plan.HealthCheck{Port: 30100, LocalReady: [2]int{1, 0}}
	l.Replace(web, plan.Claims{HealthCheck: check})
	l.Replace(Owner{Name: plan.ServiceName{Namespace: "shop", Name: "other"}}, plan.Claims{})
	if got := l.TakeHealthChanges(); len(got) != 1 || got[web.Name] != check {
		t.Errorf("a new one: %v", got)
	}
	l.Replace(web, plan.Claims{HealthCheck: check})
	if got := l.TakeHealthChanges(); got != nil {
		t.Errorf("the same again: %v", got)
	}
	l.Remove(web.Name)
	if got := l.TakeHealthChanges(); len(got) != 1 || got[web.Name] != (plan.HealthCheck{}) {
		t.Errorf("a removed one: %v", got)
	}
}
