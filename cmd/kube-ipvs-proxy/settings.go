package main

import (
	"context"
	"log/slog"
	"time"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/host"
)

// keepSettings looks at the kernel settings once in a refresh period: nothing tells
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
	tick := time.NewTicker(options.RefreshPeriod)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			mendSettings(root, settings, told, log)
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
