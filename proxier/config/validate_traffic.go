package config

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
)

// local understands detectLocalMode and what it needs.
func (v *validator) local(o *Options) {
	o.LocalMode = LocalMode(v.DetectLocalMode)
	switch o.LocalMode {
	case ClusterCIDR:
		o.ClusterCIDRs = v.clusterCIDRs()
	case NodeCIDR:
	case BridgeInterface:
		o.Interface = v.interfaceName("detectLocal.bridgeInterface", v.DetectLocal.BridgeInterface, maxInterfaceName)
	case InterfaceNamePrefix:
		// A prefix leaves room for the "+" that stands for the rest.
		o.Interface = v.interfaceName("detectLocal.interfaceNamePrefix", v.DetectLocal.InterfaceNamePrefix, maxInterfaceName-1)
	default:
		v.oneOf("detectLocalMode", string(v.DetectLocalMode),
			string(ClusterCIDR), string(NodeCIDR), string(BridgeInterface), string(InterfaceNamePrefix))
	}
}

// maxInterfaceName is IFNAMSIZ less the final zero.
const maxInterfaceName = 15

func (v *validator) interfaceName(path, name string, most int) string {
	switch {
	case name == "":
		v.wrong(path, name, "is needed by detectLocalMode %s", v.DetectLocalMode)
	case len(name) > most || strings.ContainsAny(name, " \t\n\"'\\/!+"):
		v.wrong(path, name, "is no name of an interface of at most %d characters", most)
	}
	return name
}

// clusterCIDRs: one CIDR, or one a family, with commas between them.
func (v *validator) clusterCIDRs() []netip.Prefix {
	const path = "clusterCIDR"
	if strings.TrimSpace(v.ClusterCIDR) == "" {
		v.note(false, "clusterCIDR is empty: no pod is told from other clients, and nothing to a ClusterIP is masqueraded because of its source")
		return nil
	}
	var cidrs []netip.Prefix
	for part := range strings.SplitSeq(v.ClusterCIDR, ",") {
		p, ok := v.cidr(path, part)
		if !ok {
			continue
		}
		if slices.ContainsFunc(cidrs, func(c netip.Prefix) bool { return c.Addr().Is6() == p.Addr().Is6() }) {
			v.wrong(path, v.ClusterCIDR, "has two CIDRs of one family")
			continue
		}
		cidrs = append(cidrs, p)
	}
	return cidrs
}

// nftablesMode is the mode of kube-proxy whose section and defaults differ.
const nftablesMode kubeproxy.ProxyMode = "nftables"

// mode understands kube-proxy's mode, and with it which section of the file has the
// operator's choice of masquerading: that of iptables also counts for mode ipvs.
func (v *validator) mode(o *Options) {
	section, all, bit := "iptables", v.IPTables.MasqueradeAll, *v.IPTables.MasqueradeBit
	if v.Mode == nftablesMode {
		section, all, bit = "nftables", v.NFTables.MasqueradeAll, *v.NFTables.MasqueradeBit
		v.note(false, "mode is nftables: nftables.masqueradeAll and nftables.masqueradeBit count, not those of section iptables")
	} else if v.NFTables.MasqueradeAll != all && v.NFTables.MasqueradeAll {
		v.note(true, "nftables.masqueradeAll has no effect: iptables.masqueradeAll counts")
	}
	o.MasqueradeAll = all
	o.MasqueradeBit = uint8(v.within(section+".masqueradeBit", bit, 0, 31))
	if bit >= 0 && bit < fewIndexBits {
		v.note(true, "%s.masqueradeBit %d leaves numbers for %d Services with externalTrafficPolicy Local; more are served by local endpoints only", section, bit, 1<<bit-1)
	}
	switch v.Mode {
	case "", "ipvs":
		return
	}
	if v.StrictMode {
		v.wrong("mode", string(v.Mode), "must be ipvs or empty (strictMode)")
		return
	}
	o.WrongMode = string(v.Mode)
	v.note(true, "mode is %q: this proxy serves with IPVS whatever it says", v.Mode)
}

// fewIndexBits is the masquerade bit below which marks are scarce.
const fewIndexBits = 12

// nodePorts judges nodePortAddresses; package host understands it.
func (v *validator) nodePorts(o *Options) {
	keywords := map[string]bool{}
	for i, entry := range v.NodePortAddresses {
		path := fmt.Sprintf("nodePortAddresses[%d]", i)
		switch entry {
		case "primary", "localhost", "all":
			if keywords[entry] {
				v.wrong(path, entry, "is there twice")
			}
			keywords[entry] = true
			continue
		}
		if p, err := netip.ParsePrefix(entry); err != nil || p.Addr().Is4In6() {
			v.wrong(path, entry, "is neither a CIDR such as 192.0.2.0/24 nor one of primary, localhost, all")
		}
	}
	o.NodePorts = v.NodePortAddresses
	if len(o.NodePorts) == 0 && v.Mode == nftablesMode {
		o.NodePorts = []string{"primary"}
		v.note(false, "mode is nftables and nodePortAddresses is empty: NodePorts are served on the node's primary addresses, as there")
	}
}

// minMasqueradePorts is the least room for masqueraded connections to one place.
const minMasqueradePorts = 1024

// masqueradePorts are those outside the NodePort range: above it where there is
// room, else below; "" means that any port may be taken.
func (v *validator) masqueradePorts() [2]uint16 {
	const path = "nodePortRange"
	if v.NodePortRange == "" {
		return [2]uint16{}
	}
	first, last, _ := strings.Cut(v.NodePortRange, "-")
	low, errLow := strconv.ParseUint(first, 10, 16)
	high, errHigh := strconv.ParseUint(last, 10, 16)
	if errLow != nil || errHigh != nil || low == 0 || low > high {
		v.wrong(path, v.NodePortRange, "must be FIRST-LAST, such as 30000-32767")
		return [2]uint16{}
	}
	from, to := uint16(low), uint16(high)
	switch {
	case 65535-to >= minMasqueradePorts:
		return [2]uint16{to + 1, 65535}
	case from >= 1024+minMasqueradePorts:
		return [2]uint16{1024, from - 1}
	}
	v.wrong(path, v.NodePortRange, "leaves no ports for masquerading")
	return [2]uint16{}
}
