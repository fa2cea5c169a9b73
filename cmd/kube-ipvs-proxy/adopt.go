package main

import (
	"context"
	"log/slog"
	"net/netip"

	"kube-ipvs-proxy/proxier"
	"kube-ipvs-proxy/proxier/config"
)

// followPodCIDRs returns what makes the rules know the Node's pod networks, nil when
// they do not depend on them.
func (a *agent) followPodCIDRs(log *slog.Logger) func([]netip.Prefix) {
	if a.rules == nil || a.options.LocalMode != config.NodeCIDR {
		return nil
	}
	return func(cidrs []netip.Prefix) {
		a.options.ClusterCIDRs = cidrs
		if err := a.rules.SetFlags(a.flags(a.options, a.marks)); err != nil {
			log.Error("the Node's pod networks", "podCIDRs", cidrs, "err", err)
		}
	}
}

// adopt has the loop take over those options that package config calls live.
func (a *agent) adopt(ctx context.Context, options config.Options, log *slog.Logger) {
	a.proxier.Adopt(ctx, proxier.Adoption{
		MinSyncPeriod: options.MinSyncPeriod, DrainTimeout: options.DrainTimeout,
		Rules: func() { // called by the loop
			a.options.MasqueradeAll = options.MasqueradeAll
			a.options.AcceptInput = options.AcceptInput
			a.options.MasqueradePorts = options.MasqueradePorts
			if a.rules == nil {
				return
			}
			if err := a.rules.SetFlags(a.flags(a.options, a.marks)); err != nil {
				log.Error("rules stay as they were", "err", err)
			}
		},
	})
}
