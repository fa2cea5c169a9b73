package main

import (
	"github.com/spf13/pflag"

	"kube-ipvs-proxy/proxier/config"
)

// addFlags defines the flags of run over raw, which holds their defaults.
func addFlags(f *pflag.FlagSet, raw *config.Raw) {
	f.StringVar(&raw.Manifests, "manifests", raw.Manifests,
		"read Services, EndpointSlices and Nodes from the YAML files of this `folder`, and follow their changes")
	f.BoolVar(&raw.Once, "once", raw.Once, "reconcile once; exit 0 when the kernel equals the plan")
	f.StringVar(&raw.HostnameOverride, "hostname-override", raw.HostnameOverride,
		"`name` of this node (default: the host's name)")
	f.StringVar(&raw.ClusterCIDR, "cluster-cidr", raw.ClusterCIDR,
		"pods' `CIDRs`, one a family with a comma between; traffic from elsewhere to a ClusterIP is masqueraded")
	f.StringVar(&raw.DetectLocalMode, "detect-local-mode", raw.DetectLocalMode,
		"how traffic of local pods is told: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix")
	f.StringVar(&raw.PodBridge, "pod-bridge-interface", raw.PodBridge,
		"bridge `interface` of the pods, for BridgeInterface")
	f.StringVar(&raw.PodInterfacePrefix, "pod-interface-name-prefix", raw.PodInterfacePrefix,
		"`prefix` of the pods' interfaces, for InterfaceNamePrefix")
	f.StringVar(&raw.Scheduler, "ipvs-scheduler", raw.Scheduler,
		"IPVS `scheduler`: rr wrr lc wlc lblc lblcr sh dh sed nq fo ovf mh, as far as the kernel has it")
	f.BoolVar(&raw.StrictARP, "ipvs-strict-arp", raw.StrictARP,
		"set arp_ignore to 1 and arp_announce to 2")
	f.BoolVar(&raw.MasqueradeAll, "masquerade-all", raw.MasqueradeAll,
		"masquerade all traffic to ClusterIPs")
	f.IntVar(&raw.MasqueradeBit, "iptables-masquerade-bit", raw.MasqueradeBit,
		"`bit` of the firewall mark for masquerading; the bit above and those below are used too")
	f.StringSliceVar(&raw.NodePortAddresses, "nodeport-addresses", raw.NodePortAddresses,
		"`CIDRs` or keywords (primary, all) of the addresses that serve NodePorts (default: all)")
	f.StringVar(&raw.NodePortRange, "node-port-range", raw.NodePortRange,
		"`range` of NodePorts; masquerading takes its ports outside of it (empty: takes any)")
	f.StringVar(&raw.ExternalAddressMode, "external-address-mode", raw.ExternalAddressMode,
		"capture takes external addresses port by port, bind binds them to kube-ipvs0")
	f.BoolVar(&raw.AcceptInput, "accept-input", raw.AcceptInput,
		"accept traffic to Services in INPUT, so that a default-deny firewall does not stop it")
	f.BoolVar(&raw.TCPBeLiberal, "conntrack-tcp-be-liberal", raw.TCPBeLiberal,
		"do not drop forwarded packets that conntrack finds invalid")
	f.DurationVar(&raw.MinSyncPeriod, "ipvs-min-sync-period", raw.MinSyncPeriod,
		"least time between two rounds")
	f.DurationVar(&raw.DrainTimeout, "drain-timeout", raw.DrainTimeout,
		"how long a TCP endpoint that left may keep its connections; 0 ends them at once, negative never")
	f.StringVar(&raw.LogFormat, "logging-format", raw.LogFormat, "text or json")
	f.IntVarP(&raw.Verbosity, "v", "v", raw.Verbosity, "log `level`; 4 and more is debug")
}
