package proxier

import (
	"context"
	"log/slog"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/reconcile"
)

// reserved follows which NodePorts are active, and has them kept out of the node's own
// connections. A failure is no undone work of a round: where the setting cannot be
// written, Services are served all the same.
type reserved struct {
	write  func(ctx context.Context, ports map[uint16]bool) (changed bool, err error)
	period time.Duration // after which it is looked whether others changed it; zero: never
	log    *slog.Logger
	// claims are the members that make a port active, ports counts them.
	claims map[ipsetutil.Member]bool
	ports  map[uint16]int
	stale  bool
	next   time.Time
	failed string // what was last said
}

func newReserved(write func(context.Context, map[uint16]bool) (bool, error), period time.Duration, log *slog.Logger) reserved {
	return reserved{
		write: write, period: period, log: log,
		claims: map[ipsetutil.Member]bool{}, ports: map[uint16]int{}, stale: true,
	}
}

// lookPeriod is how often it is looked whether others changed a setting: not at all where
// nothing is looked at again.
func lookPeriod(config reconcile.Config) time.Duration {
	if config.RefreshPeriod < 0 {
		return 0
	}
	return config.SyncPeriod
}

// nodePortSets are those whose members make a port active: NodePorts, and the ports of
// health checks.
var nodePortSets = nodePortSetNames()

func nodePortSetNames() map[string]bool {
	names := map[string]bool{}
	for _, ipv6 := range []bool{false, true} {
		for _, k := range []ipsetutil.Kind{
			ipsetutil.NodePortTCP, ipsetutil.NodePortUDP, ipsetutil.NodePortSCTP, ipsetutil.HealthCheckNodePort,
		} {
			names[k.Name(ipv6)] = true
		}
	}
	return names
}

// IsNodePort tells whether a member of a set makes its port an active NodePort, or that
// of a health check.
func IsNodePort(m ipsetutil.Member) bool { return nodePortSets[m.Set] }

// nodePortMembers are all that note has to know of at the start.
func nodePortMembers(l *ledger.Ledger) ledger.Touched {
	touched := ledger.Touched{Members: map[ipsetutil.Member]struct{}{}}
	for m := range l.Members() {
		if IsNodePort(m) {
			touched.Members[m] = struct{}{}
		}
	}
	return touched
}

// note takes over what a plan changed.
func (r *reserved) note(l *ledger.Ledger, touched ledger.Touched) {
	for m := range touched.Members {
		if !IsNodePort(m) {
			continue
		}
		_, active := l.Member(m)
		if active == r.claims[m] {
			continue
		}
		port := m.Entry.Port
		if active {
			r.claims[m] = true
			r.ports[port]++
			r.stale = r.stale || r.ports[port] == 1
			continue
		}
		delete(r.claims, m)
		if r.ports[port]--; r.ports[port] == 0 {
			delete(r.ports, port)
			r.stale = true
		}
	}
}

// keep reserves the ports when they changed, and looks once in a period whether they
// still are reserved.
func (r *reserved) keep(ctx context.Context) {
	now := time.Now()
	if r.write == nil || !r.stale && (r.period <= 0 || now.Before(r.next)) {
		return
	}
	r.next = now.Add(r.period)
	ports := make(map[uint16]bool, len(r.ports))
	for port := range r.ports {
		ports[port] = true
	}
	changed, err := r.write(ctx, ports)
	r.stale = err != nil && r.stale && r.period <= 0
	switch {
	case err != nil && err.Error() != r.failed:
		r.failed = err.Error()
		r.log.Warn("kernel setting", "problem", "NodePorts are not kept out of the node's own connections: "+r.failed)
	case err == nil:
		r.failed = ""
	}
	if changed {
		r.log.Info("NodePorts are kept out of the node's own connections", "ports", len(ports))
	}
}
