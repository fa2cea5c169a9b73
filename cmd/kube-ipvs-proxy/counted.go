package main

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/health"
	"kube-ipvs-proxy/proxier/netfilter"
	"kube-ipvs-proxy/proxier/reconcile"
)

// countedFlows tells the metrics of kube-proxy how long it took to remove stale flows,
// and how many they were, by family.
type countedFlows struct {
	reconcile.Flows
	tell func(f health.Family, took time.Duration, deleted int)
}

// DeleteFlows implements reconcile.Flows.
func (c countedFlows) DeleteFlows(ctx context.Context, stale []ipvsutil.StaleFlow) (int, error) {
	total := 0
	var errs []error
	for _, family := range []health.Family{health.IPv4, health.IPv6} {
		of := slices.DeleteFunc(slices.Clone(stale), func(s ipvsutil.StaleFlow) bool {
			return s.Frontend.IsIPv6() != (family == health.IPv6)
		})
		if len(of) == 0 {
			continue
		}
		start := time.Now()
		deleted, err := c.Flows.DeleteFlows(ctx, of)
		c.tell(family, time.Since(start), deleted)
		total += deleted
		errs = append(errs, err)
	}
	return total, errors.Join(errs...)
}

// failedRestores are the families whose rules could not be written, as far as a round's
// errors name the program.
func failedRestores(failed []error) []health.Family {
	var families []health.Family
	for _, err := range failed {
		command, ok := errors.AsType[*netfilter.CommandError](err)
		if !ok {
			continue
		}
		switch name := filepath.Base(command.Program); {
		case !strings.HasSuffix(name, "-restore"):
		case strings.HasPrefix(name, "ip6"):
			families = append(families, health.IPv6)
		default:
			families = append(families, health.IPv4)
		}
	}
	return families
}
