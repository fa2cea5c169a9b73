package config

import (
	"time"

	"github.com/spf13/pflag"
	"k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// kubeProxyOptions are the flags of kube-proxy that have a meaning here. Where a
// field of KubeProxyConfiguration and a flag differ in name, both are kube-proxy's.
var kubeProxyOptions = []option{
	{group: groupSource, name: "config", beside: true, bind: text(func(r *Raw) *string { return &r.ConfigFile }),
		usage: "`file` with a KubeProxyConfiguration and, as a second document, an IPVSProxyConfiguration; other flags of kube-proxy do not count beside it, save --hostname-override, --master, and those for the log and for tasks"},
	{group: groupSource, name: "kubeconfig", path: "clientConnection.kubeconfig", bind: text(func(r *Raw) *string { return &r.ClientConnection.Kubeconfig }),
		usage: "`file` with the access to the API server (default: that of the pod)"},
	{group: groupSource, name: "master", beside: true, bind: text(func(r *Raw) *string { return &r.Master }),
		usage: "`URL` of the API server; wins over the kubeconfig"},
	{group: groupSource, name: "kube-api-content-type", path: "clientConnection.contentType", bind: text(func(r *Raw) *string { return &r.ClientConnection.ContentType }),
		usage: "`type` of requests to the API server"},
	{group: groupSource, name: "kube-api-qps", path: "clientConnection.qps", bind: func(f *pflag.FlagSet, o option, r *Raw) {
		f.Float32Var(&r.ClientConnection.QPS, o.name, r.ClientConnection.QPS, o.usage)
	}, usage: "`requests` a second to the API server"},
	{group: groupSource, name: "kube-api-burst", path: "clientConnection.burst", bind: number(func(r *Raw) *int32 { return &r.ClientConnection.Burst }),
		usage: "`requests` to the API server that may come at once"},
	{group: groupSource, name: "feature-gates", path: "featureGates", bind: value(func(r *Raw) pflag.Value { return flag.NewMapStringBool(&r.FeatureGates) }),
		usage: "`name=bool` pairs; AllowServiceExternalIPs=false stops serving externalIPs, others have no effect here"},

	{group: groupNode, name: "hostname-override", path: "hostnameOverride", beside: true, bind: text(func(r *Raw) *string { return &r.HostnameOverride }),
		usage: "`name` of this node (default: the host's name)"},
	{group: groupNode, name: "bind-address", path: "bindAddress", bind: text(func(r *Raw) *string { return &r.BindAddress }),
		usage: "primary `address` of this node, in place of its Node's; nothing is bound to it (unspecified: the Node's)"},
	{group: groupNode, name: "oom-score-adj", path: "oomScoreAdj", bind: number(func(r *Raw) *int32 { return r.OOMScoreAdj }),
		usage: "oom_score_adj of this process, -1000 to 1000"},

	{group: groupServices, name: "nodeport-addresses", path: "nodePortAddresses", bind: list(func(r *Raw) *[]string { return &r.NodePortAddresses }),
		usage: "`CIDRs` and keywords (primary, localhost, all) of the node's addresses that serve NodePorts; a family without any is served on all (default: all)"},
	{group: groupServices, name: "proxy-mode", path: "mode", bind: text(func(r *Raw) *string { return (*string)(&r.Mode) }),
		usage: "`mode` of kube-proxy: this is always ipvs, another one is a warning (see --strict-mode)"},
	{group: groupServices, name: "ipvs-sync-period", path: "ipvs.syncPeriod", bind: duration(func(r *Raw) *time.Duration { return &r.IPVS.SyncPeriod.Duration }),
		usage: "half of the time that a change may wait until this node is unhealthy"},
	{group: groupServices, name: "ipvs-min-sync-period", path: "ipvs.minSyncPeriod", live: true, bind: duration(func(r *Raw) *time.Duration { return &r.IPVS.MinSyncPeriod.Duration }),
		usage: "least time between two rounds of changes (default 0: none)"},

	{group: groupTraffic, name: "detect-local-mode", path: "detectLocalMode", bind: text(func(r *Raw) *string { return (*string)(&r.DetectLocalMode) }),
		usage: "how traffic of this node's pods is told: ClusterCIDR, NodeCIDR, BridgeInterface or InterfaceNamePrefix"},
	{group: groupTraffic, name: "cluster-cidr", path: "clusterCIDR", bind: text(func(r *Raw) *string { return &r.ClusterCIDR }),
		usage: "pods' `CIDRs`, one a family with a comma between; traffic from elsewhere to a ClusterIP is masqueraded"},
	{group: groupTraffic, name: "pod-bridge-interface", path: "detectLocal.bridgeInterface", bind: text(func(r *Raw) *string { return &r.DetectLocal.BridgeInterface }),
		usage: "bridge `interface` of the pods, for BridgeInterface"},
	{group: groupTraffic, name: "pod-interface-name-prefix", path: "detectLocal.interfaceNamePrefix", bind: text(func(r *Raw) *string { return &r.DetectLocal.InterfaceNamePrefix }),
		usage: "`prefix` of the pods' interfaces, for InterfaceNamePrefix"},
	{group: groupTraffic, name: "masquerade-all", path: "iptables.masqueradeAll", live: true, bind: boolean(func(r *Raw) *bool { return &r.IPTables.MasqueradeAll }),
		usage: "masquerade all traffic to ClusterIPs"},
	{group: groupTraffic, name: "iptables-masquerade-bit", path: "iptables.masqueradeBit", bind: number(func(r *Raw) *int32 { return r.IPTables.MasqueradeBit }),
		usage: "`bit` of the firewall mark for masquerading, 0 to 31; the bit above and those below are used too"},

	{group: groupIPVS, name: "ipvs-scheduler", path: "ipvs.scheduler", bind: text(func(r *Raw) *string { return &r.IPVS.Scheduler }),
		usage: "IPVS `scheduler`: rr wrr lc wlc lblc lblcr sh dh sed nq fo ovf mh, as far as the kernel has it (default rr)"},
	{group: groupIPVS, name: "ipvs-strict-arp", path: "ipvs.strictARP", bind: boolean(func(r *Raw) *bool { return &r.IPVS.StrictARP }),
		usage: "set arp_ignore to 1 and arp_announce to 2, so that the node answers ARP for no address of a Service"},
	{group: groupIPVS, name: "ipvs-tcp-timeout", path: "ipvs.tcpTimeout", bind: duration(func(r *Raw) *time.Duration { return &r.IPVS.TCPTimeout.Duration }),
		usage: "IPVS limit of idle TCP connections (default 0: at least conntrack's)"},
	{group: groupIPVS, name: "ipvs-tcpfin-timeout", path: "ipvs.tcpFinTimeout", bind: duration(func(r *Raw) *time.Duration { return &r.IPVS.TCPFinTimeout.Duration }),
		usage: "IPVS limit of TCP connections after a FIN (default 0: the kernel's)"},
	{group: groupIPVS, name: "ipvs-udp-timeout", path: "ipvs.udpTimeout", bind: duration(func(r *Raw) *time.Duration { return &r.IPVS.UDPTimeout.Duration }),
		usage: "IPVS limit of idle UDP flows (default 0: the kernel's)"},

	{group: groupConntrack, name: "conntrack-max-per-core", path: "conntrack.maxPerCore", bind: number(func(r *Raw) *int32 { return r.Conntrack.MaxPerCore }),
		usage: "`entries` of the conntrack table for each CPU; a larger table stays (0: leave the table alone)"},
	{group: groupConntrack, name: "conntrack-min", path: "conntrack.min", bind: number(func(r *Raw) *int32 { return r.Conntrack.Min }),
		usage: "least `entries` of the conntrack table, whatever --conntrack-max-per-core says"},
	{group: groupConntrack, name: "conntrack-tcp-timeout-established", path: "conntrack.tcpEstablishedTimeout", bind: duration(func(r *Raw) *time.Duration { return &r.Conntrack.TCPEstablishedTimeout.Duration }),
		usage: "conntrack's limit of idle TCP connections (0: leave it alone)"},
	{group: groupConntrack, name: "conntrack-tcp-timeout-close-wait", path: "conntrack.tcpCloseWaitTimeout", bind: duration(func(r *Raw) *time.Duration { return &r.Conntrack.TCPCloseWaitTimeout.Duration }),
		usage: "conntrack's limit of TCP connections in CLOSE_WAIT (0: leave it alone)"},
	{group: groupConntrack, name: "conntrack-tcp-be-liberal", path: "conntrack.tcpBeLiberal", bind: boolean(func(r *Raw) *bool { return &r.Conntrack.TCPBeLiberal }),
		usage: "have conntrack accept packets outside of the TCP window, and drop no forwarded packet as invalid"},
	{group: groupConntrack, name: "conntrack-udp-timeout", path: "conntrack.udpTimeout", bind: duration(func(r *Raw) *time.Duration { return &r.Conntrack.UDPTimeout.Duration }),
		usage: "conntrack's limit of idle UDP flows without an answer (default 0: leave it alone)"},
	{group: groupConntrack, name: "conntrack-udp-timeout-stream", path: "conntrack.udpStreamTimeout", bind: duration(func(r *Raw) *time.Duration { return &r.Conntrack.UDPStreamTimeout.Duration }),
		usage: "conntrack's limit of idle UDP flows with answers (default 0: leave it alone)"},

	{group: groupObserve, name: "healthz-bind-address", path: "healthzBindAddress", bind: text(func(r *Raw) *string { return &r.HealthzBindAddress }),
		usage: "`IP:port` of the health server; empty turns it off"},
	{group: groupObserve, name: "metrics-bind-address", path: "metricsBindAddress", bind: text(func(r *Raw) *string { return &r.MetricsBindAddress }),
		usage: "`IP:port` of the metrics server"},
	{group: groupObserve, name: "bind-address-hard-fail", path: "bindAddressHardFail", bind: boolean(func(r *Raw) *bool { return &r.BindAddressHardFail }),
		usage: "end when the health or metrics server cannot listen, instead of trying again"},
	{group: groupObserve, name: "profiling", path: "enableProfiling", bind: boolean(func(r *Raw) *bool { return &r.EnableProfiling }),
		usage: "serve /debug/pprof at the metrics server"},
	{group: groupObserve, name: "logging-format", path: "logging.format", beside: true, bind: text(func(r *Raw) *string { return &r.Logging.Format }),
		usage: "text or json"},
	{group: groupObserve, name: "v", path: "logging.verbosity", beside: true, live: true, bind: value(func(r *Raw) pflag.Value { return logsapi.VerbosityLevelPflag(&r.Logging.Verbosity) }),
		usage: "log `level`; 4 and more is debug"},
	{group: groupObserve, name: "healthz-port", bind: number(func(r *Raw) *int32 { return &r.healthPort }),
		usage: "deprecated: `port` of the health server; 0 turns it off"},
	{group: groupObserve, name: "metrics-port", bind: number(func(r *Raw) *int32 { return &r.metricsPort }),
		usage: "deprecated: `port` of the metrics server"},

	{group: groupTasks, name: "write-config-to", beside: true, bind: text(func(r *Raw) *string { return &r.WriteConfigTo }),
		usage: "write the configuration that counts to this `file`, and end"},
	{group: groupTasks, name: "init-only", beside: true, bind: boolean(func(r *Raw) *bool { return &r.InitOnly }),
		usage: "load modules, set sysctls, conntrack's settings and the limits of IPVS, and end"},
	{group: groupTasks, name: "cleanup", beside: true, bind: boolean(func(r *Raw) *bool { return &r.Cleanup }),
		usage: "remove what this proxy has put into the kernel, and end (see the command cleanup)"},
	{group: groupTasks, name: "version", beside: true, bind: boolean(func(r *Raw) *bool { return &r.Version }),
		usage: "print the version, and end"},
}
