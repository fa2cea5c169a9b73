package main

import (
	"context"
	"log/slog"
	"time"

	"kube-ipvs-proxy/ipvsutil/kernel"
	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/host"
)

// keepSettings looks at the kernel settings once in a sync period: nothing tells
// when somebody changes one. What can be set is set again; what cannot is told once.
func keepSettings(ctx context.Context, options config.Options, log *slog.Logger) {
	settings, _, err := wantedSysctls(options, hostHasIPv6(), slog.New(slog.DiscardHandler))
	if err != nil || options.RefreshPeriod <= 0 {
		return // an error was told at the start
	}
	root := host.SettableRoot()
	told := map[string]bool{} // what the start could not set it has told
	for _, p := range host.CheckSysctls(root, settings) {
		told[p.Key] = true
	}
	period := options.RefreshPeriod
	if options.SyncPeriod > 0 {
		period = min(period, options.SyncPeriod) // it is a few files, and traffic may depend on each
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			mendSettings(root, settings, told, log)
			mendTimeouts(ctx, options.Timeouts, log)
		}
	}
}

// mendSettings sets again what changed, and tells what stays wrong and is not in told.
func mendSettings(root string, settings []host.Sysctl, told map[string]bool, log *slog.Logger) {
	wrong := host.CheckSysctls(root, settings)
	if len(wrong) == 0 {
		clear(told)
		return
	}
	stays := map[string]bool{}
	for _, p := range host.EnsureSysctls(root, settings) {
		stays[p.Key] = true
		if !told[p.Key] {
			log.Warn("kernel setting", "problem", p.String())
		}
	}
	for _, p := range wrong {
		if !stays[p.Key] {
			log.Warn("kernel setting was changed by somebody and is set again", "problem", p.String())
		}
		told[p.Key] = stays[p.Key]
	}
}

// mendTimeouts sets the idle limits of IPVS again where they were changed. A kernel that
// cannot be asked now is asked the next time.
func mendTimeouts(ctx context.Context, chosen config.Timeouts, log *slog.Logger) {
	ipvs, err := kernel.Open(ctx)
	if err != nil {
		return
	}
	defer func() { _ = ipvs.Close() }()
	before, err := ipvs.Timeouts(ctx)
	if err != nil || setTimeouts(ctx, ipvs, chosen) != nil {
		return
	}
	if now, err := ipvs.Timeouts(ctx); err == nil && now != before {
		log.Warn("limits of idle connections were changed by somebody and are set again", "were", before, "are", now)
	}
}
