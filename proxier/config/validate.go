package config

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// Validate understands what the operator wrote, or says everything that is wrong.
func (r Raw) Validate() (Options, error) {
	v := &validator{Raw: r}
	v.notes = slices.Clone(r.notes)
	o := Options{
		Manifests: r.Manifests, Once: r.Once, API: v.api(),
		NodeName: v.nodeName(), BindAddress: v.bindAddress(),
		OOMScoreAdj:     int(v.within("oomScoreAdj", *r.OOMScoreAdj, -1000, 1000)),
		MasqueradePorts: v.masqueradePorts(), AcceptInput: r.AcceptInput,
		Scheduler: v.scheduler(), StrictARP: r.IPVS.StrictARP, Timeouts: v.timeouts(),
		RunEstimation: r.IPVSRunEstimation,
		BindExternal:  v.oneOf("externalAddressMode", r.ExternalAddressMode, "capture", "bind") == "bind",
		BindByRoute:   v.oneOf("clusterIPBinding", r.ClusterIPBinding, "address", "route") == "route",
		NoExternalIPs: v.noExternalIPs(), AllowExternalCIDRs: v.cidrs("allowExternalCIDRs", r.AllowExternalCIDRs),
		Conntrack: v.conntrack(), TCPBeLiberal: r.KubeProxyConfiguration.Conntrack.TCPBeLiberal,
		SyncPeriod: r.IPVS.SyncPeriod.Duration, MinSyncPeriod: r.IPVS.MinSyncPeriod.Duration,
		DrainTimeout: r.DrainTimeout.Duration, RefreshPeriod: v.notNegative("refreshPeriod", r.RefreshPeriod.Duration),
		TrafficMetrics: int(v.within("trafficMetrics", r.TrafficMetrics, 0, maxTrafficMetrics)),
		BindHardFail:   r.BindAddressHardFail, Profiling: r.EnableProfiling,
		JSONLog: v.oneOf("logging.format", r.Logging.Format, "text", "json") == "json",
		Debug:   r.Logging.Verbosity >= debugVerbosity,
	}
	if backend := v.oneOf("iptablesBackend", r.IPTablesBackend, "auto", "nft", "legacy"); backend != "auto" {
		o.IPTablesBackend = backend
	}
	v.mode(&o)
	v.local(&o)
	v.nodePorts(&o)
	v.periods()
	v.servers(&o)
	v.cidrs("ipvs.excludeCIDRs", r.IPVS.ExcludeCIDRs)
	v.noteUDP(o.Timeouts, o.Conntrack)
	v.noteIdle()
	o.Notes = v.notes
	return o, errors.Join(v.errs...)
}

// maxTrafficMetrics keeps a page of metrics to some megabytes.
const maxTrafficMetrics = 10_000

// debugVerbosity is the level of klog that shows what debugging needs.
const debugVerbosity = 4

// validator collects what is wrong. Its Raw also takes notes.
type validator struct {
	Raw
	errs []error
}

// wrong says what is wrong with a field. The path may name an item, as in "list[2]".
func (v *validator) wrong(path, value, format string, args ...any) {
	name := path
	field, _, _ := strings.Cut(path, "[")
	if flag := flagOf(field); flag != "" && flag != "--"+path {
		name += " (" + flag + ")"
	}
	v.errs = append(v.errs, fmt.Errorf("%s %q: %s", name, value, fmt.Sprintf(format, args...)))
}

func (v *validator) oneOf(path, value string, allowed ...string) string {
	if !slices.Contains(allowed, value) {
		v.wrong(path, value, "must be one of %s", strings.Join(allowed, ", "))
	}
	return value
}

func (v *validator) within(path string, value, low, high int32) int32 {
	if value < low || value > high {
		v.wrong(path, fmt.Sprint(value), "must be %d to %d", low, high)
	}
	return value
}

func (v *validator) atLeastZero(path string, value int32) int32 {
	if value < 0 {
		v.wrong(path, fmt.Sprint(value), "must not be negative")
	}
	return value
}

func (v *validator) notNegative(path string, d time.Duration) time.Duration {
	if d < 0 {
		v.wrong(path, d.String(), "must not be negative")
	}
	return d
}

func (v *validator) positive(path string, d time.Duration) time.Duration {
	if d <= 0 {
		v.wrong(path, d.String(), "must be more than zero")
	}
	return d
}

// cidrs reads a list of CIDRs; an empty list is nil.
func (v *validator) cidrs(path string, list []string) []netip.Prefix {
	var cidrs []netip.Prefix
	for i, text := range list {
		if p, ok := v.cidr(fmt.Sprintf("%s[%d]", path, i), text); ok {
			cidrs = append(cidrs, p)
		}
	}
	return cidrs
}

func (v *validator) cidr(path, text string) (netip.Prefix, bool) {
	p, err := netip.ParsePrefix(strings.TrimSpace(text))
	if err != nil || p.Addr().Is4In6() {
		v.wrong(path, text, "is no CIDR such as 192.0.2.0/24 or 2001:db8::/64")
		return netip.Prefix{}, false
	}
	return p.Masked(), true
}

func (v *validator) api() API {
	c := v.ClientConnection
	v.positive("configSyncPeriod", v.ConfigSyncPeriod.Duration)
	return API{
		Kubeconfig: c.Kubeconfig, Master: v.Master,
		AcceptContentTypes: c.AcceptContentTypes, ContentType: c.ContentType,
		QPS: c.QPS, Burst: int(v.atLeastZero("clientConnection.burst", c.Burst)),
	}
}

// nodeName is what was given, else the host's name; trimmed and in lower case.
func (v *validator) nodeName() string {
	name := v.HostnameOverride
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			v.wrong("hostnameOverride", "", "not given, and the host has no name: %v", err)
			return ""
		}
		name = host
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" {
		v.wrong("hostnameOverride", v.HostnameOverride, "is no name")
	}
	return name
}

// bindAddress is invalid when it is unspecified.
func (v *validator) bindAddress() netip.Addr {
	addr, err := netip.ParseAddr(v.BindAddress)
	if err != nil || addr.Zone() != "" {
		v.wrong("bindAddress", v.BindAddress, "is no IP address")
		return netip.Addr{}
	}
	if addr = addr.Unmap(); addr.IsUnspecified() {
		return netip.Addr{}
	}
	return addr
}

// periods judges those of ipvs alone: those of other modes have no effect.
func (v *validator) periods() {
	period := v.positive("ipvs.syncPeriod", v.IPVS.SyncPeriod.Duration)
	least := v.notNegative("ipvs.minSyncPeriod", v.IPVS.MinSyncPeriod.Duration)
	if least > period && period > 0 {
		v.wrong("ipvs.minSyncPeriod", least.String(), "must not be more than ipvs.syncPeriod, which is %s", period)
	}
}

// servers judges the addresses of the health and metrics servers.
func (v *validator) servers(o *Options) {
	o.HealthAddress, o.MetricsAddress = v.HealthzBindAddress, v.MetricsBindAddress
	for _, s := range []struct{ path, address string }{
		{"healthzBindAddress", o.HealthAddress}, {"metricsBindAddress", o.MetricsAddress},
	} {
		if s.address == "" && s.path == "healthzBindAddress" {
			continue // off
		}
		if _, err := netip.ParseAddrPort(s.address); err != nil {
			v.wrong(s.path, s.address, "must be an IP address with a port, such as 127.0.0.1:10249 or [::1]:10249")
		}
	}
	if o.HealthAddress != "" && o.HealthAddress == o.MetricsAddress {
		v.wrong("metricsBindAddress", o.MetricsAddress, "is the address of the health server too")
	}
}
