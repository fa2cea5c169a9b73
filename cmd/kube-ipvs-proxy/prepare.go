package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/host"
)

// prepare loads modules, makes sure that the node has all that is needed, and sets
// the kernel's settings. What is missing ends the start with one line; a setting
// that stays wrong is said with what it breaks.
func prepare(ctx context.Context, options config.Options, log *slog.Logger) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("needs root, or the capabilities NET_ADMIN and NET_RAW with user 0")
	}
	ipv6 := hostHasIPv6()
	if missing := host.LoadModules(ctx, host.Modules(options.Scheduler)); len(missing) > 0 {
		log.Debug("no sign of kernel modules", "modules", missing)
	}
	if err := host.Preflight(ctx, host.Probes(host.ProbeOptions{IPv6: ipv6})); err != nil {
		return err
	}
	release, err := host.KernelRelease(host.ProcSys)
	if err != nil {
		return err
	}
	settings := host.Sysctls(host.SysctlOptions{Release: release, IPv6: ipv6, StrictARP: options.StrictARP})
	for _, problem := range host.EnsureSysctls(host.ProcSys, settings) {
		log.Warn("kernel setting", "problem", problem.String())
	}
	return nil
}

// hostHasIPv6 reports whether the kernel has IPv6 and it is not switched off.
func hostHasIPv6() bool {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		return false
	}
	off, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	return err == nil && len(off) > 0 && off[0] == '0'
}
