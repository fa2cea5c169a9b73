package main

import (
	"context"
	"net/netip"

	"kube-ipvs-proxy/proxier/host"
)

// hostDoor turns the host's events into the two pokes that the loop waits for.
type hostDoor struct {
	node             *host.Node
	changed, damaged chan struct{}
}

// openHost subscribes to the host's events.
func openHost(ctx context.Context, a *agent) (*hostDoor, error) {
	node, err := host.OpenNode()
	if err != nil {
		return nil, err
	}
	a.closers = append(a.closers, node.Close)
	events, err := node.Watch(ctx)
	if err != nil {
		return nil, err
	}
	d := &hostDoor{node: node, changed: make(chan struct{}, 1), damaged: make(chan struct{}, 1)}
	go d.run(events)
	return d, nil
}

func (d *hostDoor) run(events <-chan host.Event) {
	for e := range events {
		if e.Has(host.NodeAddresses) {
			poke(d.changed)
		}
		if e.Has(host.DeviceGone) || e.Has(host.RuleGone) || e.Has(host.Missed) {
			poke(d.damaged)
		}
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (d *hostDoor) Addrs(ctx context.Context) ([]netip.Addr, error) { return d.node.Addresses(ctx) }
func (d *hostDoor) Changed() <-chan struct{}                        { return d.changed }
func (d *hostDoor) Damaged() <-chan struct{}                        { return d.damaged }
func (d *hostDoor) Unbound() <-chan []netip.Addr                    { return d.node.Unbound() }
