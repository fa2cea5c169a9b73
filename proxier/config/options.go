// Package config turns flags (and later a configuration file) into one validated
// value. Wrong values are refused before anything is touched, all of them at once.
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

// Raw is what the operator wrote, not yet understood. Names in the comments are
// those of the flags; where kube-proxy has a flag of that name, it means the same.
type Raw struct {
	Manifests           string        // --manifests
	Once                bool          // --once
	HostnameOverride    string        // --hostname-override
	ClusterCIDR         string        // --cluster-cidr
	DetectLocalMode     string        // --detect-local-mode
	PodBridge           string        // --pod-bridge-interface
	PodInterfacePrefix  string        // --pod-interface-name-prefix
	Scheduler           string        // --ipvs-scheduler
	StrictARP           bool          // --ipvs-strict-arp
	MasqueradeAll       bool          // --masquerade-all
	MasqueradeBit       int           // --iptables-masquerade-bit
	NodePortAddresses   []string      // --nodeport-addresses
	NodePortRange       string        // --node-port-range
	ExternalAddressMode string        // --external-address-mode
	AcceptInput         bool          // --accept-input
	TCPBeLiberal        bool          // --conntrack-tcp-be-liberal
	MinSyncPeriod       time.Duration // --ipvs-min-sync-period
	DrainTimeout        time.Duration // --drain-timeout
	LogFormat           string        // --logging-format
	Verbosity           int           // -v
}

// Defaults are the values that flags have when they are not given.
func Defaults() Raw {
	return Raw{
		DetectLocalMode: string(ClusterCIDR), Scheduler: "rr", MasqueradeBit: 14,
		NodePortRange: "30000-32767", ExternalAddressMode: "capture", AcceptInput: true,
		DrainTimeout: 15 * time.Minute, LogFormat: "text",
	}
}

// LocalMode says how traffic of this node's pods is told from other traffic
// (KEP-2450).
type LocalMode string

// The modes of kube-proxy that are served here.
const (
	ClusterCIDR         LocalMode = "ClusterCIDR"
	NodeCIDR            LocalMode = "NodeCIDR"
	BridgeInterface     LocalMode = "BridgeInterface"
	InterfaceNamePrefix LocalMode = "InterfaceNamePrefix"
)

// Options is the validated configuration.
type Options struct {
	Manifests     string
	Once          bool
	NodeName      string
	LocalMode     LocalMode
	ClusterCIDRs  []netip.Prefix // at most one a family
	Interface     string         // bridge or prefix, by LocalMode
	Scheduler     string
	StrictARP     bool
	MasqueradeAll bool
	MasqueradeBit uint8
	// NodePorts holds the selectors as written; package host understands them.
	NodePorts []string
	// MasqueradePorts is the range from which masquerading takes ports, so that it
	// never takes a NodePort's; zero means any.
	MasqueradePorts [2]uint16
	BindExternal    bool
	AcceptInput     bool
	TCPBeLiberal    bool
	MinSyncPeriod   time.Duration
	DrainTimeout    time.Duration
	JSONLog         bool
	Debug           bool
}

// Validate understands what the operator wrote, or says everything that is wrong.
func (r Raw) Validate() (Options, error) {
	v := validator{}
	o := Options{
		Manifests: r.Manifests, Once: r.Once, Scheduler: r.Scheduler, StrictARP: r.StrictARP,
		MasqueradeAll: r.MasqueradeAll, NodePorts: r.NodePortAddresses,
		AcceptInput: r.AcceptInput, TCPBeLiberal: r.TCPBeLiberal,
		MinSyncPeriod: r.MinSyncPeriod, DrainTimeout: r.DrainTimeout, Debug: r.Verbosity >= 4,
	}
	o.NodeName = v.nodeName(r.HostnameOverride)
	v.local(r, &o)
	o.MasqueradeBit = v.masqueradeBit(r.MasqueradeBit)
	o.MasqueradePorts = v.masqueradePorts(r.NodePortRange)
	o.BindExternal = v.oneOf("--external-address-mode", r.ExternalAddressMode, "capture", "bind") == "bind"
	o.JSONLog = v.oneOf("--logging-format", r.LogFormat, "text", "json") == "json"
	if o.Scheduler == "" {
		o.Scheduler = "rr"
	}
	if r.Manifests == "" {
		v.wrong("--manifests", "", "a folder of manifests is needed")
	}
	if r.MinSyncPeriod < 0 {
		v.wrong("--ipvs-min-sync-period", r.MinSyncPeriod.String(), "must not be negative")
	}
	return o, errors.Join(v.errs...)
}

// validator collects what is wrong.
type validator struct{ errs []error }

func (v *validator) wrong(flag, value, reason string) {
	v.errs = append(v.errs, fmt.Errorf("%s %q: %s", flag, value, reason))
}

// nodeName is the flag, else the host's name; trimmed and in lower case.
func (v *validator) nodeName(override string) string {
	name := override
	if name == "" {
		host, err := os.Hostname()
		if err != nil {
			v.wrong("--hostname-override", "", "not given, and the host has no name: "+err.Error())
		}
		name = host
	}
	return strings.ToLower(strings.TrimSpace(name))
}

func (v *validator) oneOf(flag, value string, allowed ...string) string {
	if !slices.Contains(allowed, value) {
		v.wrong(flag, value, "must be one of "+strings.Join(allowed, ", "))
	}
	return value
}

func (v *validator) local(r Raw, o *Options) {
	o.LocalMode = LocalMode(r.DetectLocalMode)
	switch o.LocalMode {
	case ClusterCIDR:
		o.ClusterCIDRs = v.clusterCIDRs(r.ClusterCIDR)
	case NodeCIDR:
	case BridgeInterface:
		o.Interface = v.needed("--pod-bridge-interface", r.PodBridge)
	case InterfaceNamePrefix:
		o.Interface = v.needed("--pod-interface-name-prefix", r.PodInterfacePrefix)
	default:
		v.oneOf("--detect-local-mode", r.DetectLocalMode,
			string(ClusterCIDR), string(NodeCIDR), string(BridgeInterface), string(InterfaceNamePrefix))
	}
}

// maxInterfaceName is IFNAMSIZ less the final zero.
const maxInterfaceName = 15

func (v *validator) needed(flag, value string) string {
	switch {
	case value == "":
		v.wrong(flag, value, "is needed by this --detect-local-mode")
	case len(value) > maxInterfaceName || strings.ContainsAny(value, " /\t\n"):
		v.wrong(flag, value, "is no interface name")
	}
	return value
}

// clusterCIDRs: one CIDR, or one a family, with commas between them.
func (v *validator) clusterCIDRs(text string) []netip.Prefix {
	const flag = "--cluster-cidr"
	if strings.TrimSpace(text) == "" {
		return nil
	}
	var cidrs []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(part))
		if err != nil {
			v.wrong(flag, text, fmt.Sprintf("%q is no CIDR", part))
			continue
		}
		if slices.ContainsFunc(cidrs, func(c netip.Prefix) bool { return c.Addr().Is6() == p.Addr().Is6() }) {
			v.wrong(flag, text, "has two CIDRs of one family")
			continue
		}
		cidrs = append(cidrs, p.Masked())
	}
	return cidrs
}

// masqueradeBit: the marks of captured addresses and short circuits stand beside
// it (one bit above, and all bits below), so that it has to leave them room.
func (v *validator) masqueradeBit(bit int) uint8 {
	if bit < 8 || bit > 30 {
		v.wrong("--iptables-masquerade-bit", fmt.Sprint(bit),
			"must be 8 to 30: the bit above marks captured packets, those below number short circuits")
		return 14
	}
	return uint8(bit)
}

// minMasqueradePorts is the least room for masqueraded connections to one place.
const minMasqueradePorts = 1024

// masqueradePorts are those outside the NodePort range: above it where there is
// room, else below; "" means that any port may be taken.
func (v *validator) masqueradePorts(text string) [2]uint16 {
	if text == "" {
		return [2]uint16{}
	}
	var from, to uint16
	if n, err := fmt.Sscanf(text, "%d-%d", &from, &to); err != nil || n != 2 || from == 0 || from > to {
		v.wrong("--node-port-range", text, "must be FIRST-LAST, such as 30000-32767")
		return [2]uint16{}
	}
	switch {
	case 65535-to >= minMasqueradePorts:
		return [2]uint16{to + 1, 65535}
	case from >= 1024+minMasqueradePorts:
		return [2]uint16{1024, from - 1}
	}
	v.wrong("--node-port-range", text, "leaves no ports for masquerading")
	return [2]uint16{}
}
