package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/kernel"
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
	ipvs, err := kernel.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = ipvs.Close() }()
	// Before anything is set, so that a wrong name changes nothing.
	if err := host.CheckScheduler(ctx, ipvs, options.Scheduler); err != nil {
		if errors.Is(err, ipvsutil.ErrUnknownScheduler) {
			return exitError{2, fmt.Errorf("ipvs.scheduler (--ipvs-scheduler): %w", err)}
		}
		return err
	}
	if err := setSysctls(options, ipv6, log); err != nil {
		return err
	}
	if err := setTimeouts(ctx, ipvs, options.Timeouts); err != nil {
		log.Warn("limits of idle connections", "err", err)
	}
	return nil
}

// setSysctls sets those that IPVS needs, then those of connection tracking.
func setSysctls(options config.Options, ipv6 bool, log *slog.Logger) error {
	settings, module, err := wantedSysctls(options, ipv6, log)
	if err != nil {
		return err
	}
	problems := host.EnsureSysctls(host.SettableRoot(), settings)
	problems = append(problems, host.EnsureSysctls(host.Sys, module)...)
	for _, problem := range problems {
		log.Warn("kernel setting", "problem", problem.String())
	}
	return nil
}

// wantedSysctls are the settings below host.ProcSys, and those of the conntrack module
// below host.Sys.
func wantedSysctls(options config.Options, ipv6 bool, log *slog.Logger) (settings, module []host.Sysctl, err error) {
	release, err := host.KernelRelease(host.ProcSys)
	if err != nil {
		return nil, nil, err
	}
	settings = host.Sysctls(host.SysctlOptions{Release: release, IPv6: ipv6, StrictARP: options.StrictARP})
	if on := options.RunEstimation; on != nil {
		want := map[bool]string{false: "0", true: "1"}[*on]
		settings = append(settings, host.Sysctl{Key: "net/ipv4/vs/run_estimation", Want: want,
			Breaks: "IPVS estimates rates, or does not, against ipvsRunEstimation"})
	}
	conntrack := conntrackOf(options.Conntrack)
	conntrack.LeastUDP = options.Timeouts.UDP
	cpus := 0
	if conntrack.MaxPerCore > 0 {
		if cpus, err = host.OnlineCPUs(host.Sys); err != nil {
			log.Warn("size of the conntrack table is left alone", "err", err)
			conntrack.MaxPerCore = 0
		}
	}
	return append(settings, conntrack.Sysctls(cpus)...), conntrack.HashSize(cpus), nil
}

func conntrackOf(c config.Conntrack) host.Conntrack {
	return host.Conntrack{
		MaxPerCore: c.MaxPerCore, Min: c.Min, TCPEstablished: c.TCPEstablished, TCPCloseWait: c.TCPCloseWait,
		UDP: c.UDP, UDPStream: c.UDPStream, TCPBeLiberal: c.TCPBeLiberal,
	}
}

// setTimeouts sets the idle limits of IPVS where they differ from what is wanted.
func setTimeouts(ctx context.Context, ipvs *kernel.IPVS, chosen config.Timeouts) error {
	have, err := ipvs.Timeouts(ctx)
	if err != nil {
		return err
	}
	established, conntrackErr := establishedTimeout()
	want := wantTimeouts(have, chosen, established)
	if want != have {
		if err := ipvs.SetTimeouts(ctx, want); err != nil {
			return err
		}
	}
	if chosen.TCP == 0 {
		return conntrackErr
	}
	return nil
}

// wantTimeouts are the chosen limits. Where none is chosen, the kernel's stay, but an
// established connection is kept at least as long as conntrack keeps it (in seconds):
// with IPVS's own 15 minutes an idle client is reset by its next packet
// (kubernetes/kubernetes#80298).
func wantTimeouts(have ipvsutil.Timeouts, chosen config.Timeouts, established uint32) ipvsutil.Timeouts {
	want := have
	want.TCP = max(want.TCP, min(established, ipvsutil.MaxTimeout))
	for _, t := range []struct {
		want   *uint32
		chosen float64
	}{
		{&want.TCP, chosen.TCP.Seconds()}, {&want.TCPFin, chosen.TCPFin.Seconds()}, {&want.UDP, chosen.UDP.Seconds()},
	} {
		if t.chosen > 0 {
			*t.want = uint32(t.chosen)
		}
	}
	return want
}

// establishedTimeout is conntrack's limit of idle TCP connections, in seconds.
func establishedTimeout() (uint32, error) {
	text, err := os.ReadFile(host.ProcSys + "/net/netfilter/nf_conntrack_tcp_timeout_established")
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 32)
	return uint32(n), err
}

// adjustOOMScore has the kernel spare this process, or not, when memory is short.
func adjustOOMScore(score int, log *slog.Logger) {
	if err := os.WriteFile("/proc/self/oom_score_adj", strconv.AppendInt(nil, int64(score), 10), 0); err != nil {
		log.Warn("oomScoreAdj stays as it is", "want", score, "err", err)
	}
}

// hostHasIPv6 reports whether the kernel has IPv6 and it is not switched off.
func hostHasIPv6() bool {
	if _, err := os.Stat("/proc/net/if_inet6"); err != nil {
		return false
	}
	off, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	return err == nil && len(off) > 0 && off[0] == '0'
}
