package proxier

import (
	"context"
	"errors"

	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

// Inspection is what a command that only looks needs to know of the desired state.
type Inspection struct {
	Desired *ledger.Ledger
	Node    plan.Node
	Plan    plan.Config
	// Problems are what cannot be served, by Service.
	Problems map[plan.ServiceName][]plan.Problem
}

// Inspect plans all Services, as Plan does, and tells what led to it.
func (p *Proxier) Inspect(ctx context.Context) (Inspection, error) {
	desired, err := p.Plan(ctx)
	if err != nil {
		return Inspection{}, err
	}
	return Inspection{Desired: desired, Node: p.node, Plan: p.config.Plan, Problems: p.problems.known}, nil
}

// Preview does one round, the first of a start. It is for doors that only note down
// what they are asked for.
func (p *Proxier) Preview(ctx context.Context) error {
	if err := p.waitSynced(ctx); err != nil {
		return err
	}
	s := p.work(ctx)
	return errors.Join(s.Unread, s.Err())
}
