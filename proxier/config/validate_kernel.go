package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// maxScheduler is IP_VS_SCHEDNAME_MAXLEN less the final zero.
const maxScheduler = 15

// scheduler is a name that the kernel may have: it becomes part of a module's name.
func (v *validator) scheduler() string {
	name := v.IPVS.Scheduler
	if name == "" {
		return "rr"
	}
	strange := func(c rune) bool { return !(c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_') }
	if len(name) > maxScheduler || strings.ContainsFunc(name, strange) {
		v.wrong("ipvs.scheduler", name, "is no scheduler's name, which has lower case letters and digits, %d at most", maxScheduler)
	}
	return name
}

// maxTimeout is the most that IPVS takes (ipvsutil.MaxTimeout).
const maxTimeout = (1<<31/1000 - 1) * time.Second

func (v *validator) timeouts() Timeouts {
	return Timeouts{
		TCP:    v.timeout("ipvs.tcpTimeout", v.IPVS.TCPTimeout.Duration, maxTimeout),
		TCPFin: v.timeout("ipvs.tcpFinTimeout", v.IPVS.TCPFinTimeout.Duration, maxTimeout),
		UDP:    v.timeout("ipvs.udpTimeout", v.IPVS.UDPTimeout.Duration, maxTimeout),
	}
}

// noteUDP notes limits of UDP that end before those of IPVS.
func (v *validator) noteUDP(ipvs Timeouts, c Conntrack) {
	for _, t := range []struct {
		path   string
		chosen time.Duration
	}{{"conntrack.udpTimeout", c.UDP}, {"conntrack.udpStreamTimeout", c.UDPStream}} {
		if t.chosen > 0 && t.chosen < ipvs.UDP {
			v.note(true, "%s %s ends UDP flows before ipvs.udpTimeout %s", t.path, t.chosen, ipvs.UDP)
		}
	}
}

// maxConntrackTimeout keeps a number of seconds that the kernel's int can hold.
const maxConntrackTimeout = (1<<31 - 1) * time.Second

func (v *validator) conntrack() Conntrack {
	c := v.KubeProxyConfiguration.Conntrack
	return Conntrack{
		MaxPerCore:     v.atLeastZero("conntrack.maxPerCore", *c.MaxPerCore),
		Min:            v.atLeastZero("conntrack.min", *c.Min),
		TCPEstablished: v.timeout("conntrack.tcpEstablishedTimeout", c.TCPEstablishedTimeout.Duration, maxConntrackTimeout),
		TCPCloseWait:   v.timeout("conntrack.tcpCloseWaitTimeout", c.TCPCloseWaitTimeout.Duration, maxConntrackTimeout),
		UDP:            v.timeout("conntrack.udpTimeout", c.UDPTimeout.Duration, maxConntrackTimeout),
		UDPStream:      v.timeout("conntrack.udpStreamTimeout", c.UDPStreamTimeout.Duration, maxConntrackTimeout),
		TCPBeLiberal:   c.TCPBeLiberal,
	}
}

// timeout is zero or at least a second, because the kernel counts seconds: less would
// become zero, which means something else.
func (v *validator) timeout(path string, d, most time.Duration) time.Duration {
	switch {
	case d < 0:
		v.notNegative(path, d)
	case d > 0 && d < time.Second:
		v.wrong(path, d.String(), "must be a second or more, or zero")
	case d > most:
		v.wrong(path, d.String(), "must be %s at most", most)
	}
	return d.Truncate(time.Second)
}

// externalIPsGate is the one feature gate that has an effect here; KubeProxyIPVS would
// only forbid what this proxy is for.
const externalIPsGate = "AllowServiceExternalIPs"

// noExternalIPs reads the feature gates.
func (v *validator) noExternalIPs() bool {
	for _, gate := range slices.Sorted(maps.Keys(v.FeatureGates)) {
		if gate != externalIPsGate {
			v.note(false, "featureGates.%s has no effect here", gate)
		}
	}
	allowed, given := v.FeatureGates[externalIPsGate]
	return given && !allowed
}

// noteIdle notes what was chosen and has no effect.
func (v *validator) noteIdle() {
	defaults := Defaults()
	was, is := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	defaults.AddFlags(was)
	v.AddFlags(is)
	for _, o := range idleOptions {
		if chosen := is.Lookup(o.name).Value.String(); chosen != was.Lookup(o.name).Value.String() {
			v.note(false, "%s (--%s) %s has no effect: %s", o.path, o.name, chosen, o.usage)
		}
	}
}
