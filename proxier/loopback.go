package proxier

import (
	"net/netip"
	"slices"
	"time"

	"kube-ipvs-proxy/proxier/plan"
)

// LoopbackKey is a NodePort on the loopback address of a family.
type LoopbackKey struct {
	Port uint16
	IPv6 bool
}

// LoopbackTarget is where its connections go, and for which Service.
type LoopbackTarget struct {
	Service plan.ServiceName
	To      netip.AddrPort
}

// loopback knows the NodePorts that Services want on loopback addresses.
type loopback struct {
	of      map[plan.ServiceName]loopbackClaim
	changed bool
}

// loopbackClaim is what one Service wants.
type loopbackClaim struct {
	created time.Time
	ports   []plan.LoopbackPort
}

func (l *loopback) replace(name plan.ServiceName, now loopbackClaim) {
	before := l.of[name]
	if slices.Equal(before.ports, now.ports) && (len(now.ports) == 0 || before.created.Equal(now.created)) {
		return
	}
	l.changed = true
	if len(now.ports) == 0 {
		delete(l.of, name)
		return
	}
	l.of[name] = now
}

// tell hands all of them on if something changed. Of two Services that claim one port
// the older has it, as everywhere.
func (l *loopback) tell(to func(map[LoopbackKey]LoopbackTarget)) {
	if to == nil || !l.changed {
		return
	}
	l.changed = false
	targets := map[LoopbackKey]LoopbackTarget{}
	for name, claim := range l.of {
		for _, p := range claim.ports {
			key := LoopbackKey{p.NodePort, p.To.Addr().Is6()}
			if have, ok := targets[key]; ok && !l.older(name, have.Service) {
				continue
			}
			targets[key] = LoopbackTarget{name, p.To}
		}
	}
	to(targets)
}

func (l *loopback) older(a, b plan.ServiceName) bool {
	if before := l.of[a].created.Compare(l.of[b].created); before != 0 {
		return before < 0
	}
	return compareNames(a, b) < 0
}
