package proxier

import (
	"iter"
	"maps"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/reconcile"
)

// Inventory counts what is desired.
type Inventory struct {
	ledger.Counts
	// SetSizes are the most members that hash sets can hold before they are made bigger.
	SetSizes map[string]uint32
}

// Inventory tells how much is desired. Like the other views of the loop, it may be
// called from End only.
func (p *Proxier) Inventory() Inventory {
	return Inventory{Counts: p.ledger.Counts(), SetSizes: maps.Clone(p.kernel.SetSizes())}
}

// TakeHealthChanges are the health checks of the Services whose is another than when
// it was called last; one without a port is gone.
func (p *Proxier) TakeHealthChanges() map[plan.ServiceName]plan.HealthCheck {
	return p.ledger.TakeHealthChanges()
}

// Drains are the real servers that wait for their connections to end.
func (p *Proxier) Drains() []reconcile.Drain { return p.kernel.Drains() }

// Servers ranges over all desired servers, in no order. It may be called from End only.
func (p *Proxier) Servers() iter.Seq2[ipvsutil.Key, ledger.Server] { return p.ledger.Servers() }
