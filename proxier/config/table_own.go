package config

import (
	"time"

	"github.com/spf13/pflag"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// ownOptions are the flags that kube-proxy does not have. All of them count beside
// --config.
var ownOptions = []option{
	{group: groupSource, name: "manifests", path: "manifests", beside: true, bind: text(func(r *Raw) *string { return &r.Manifests }),
		usage: "read Services, EndpointSlices and Nodes from the YAML files of this `folder` instead of the API server, and follow their changes"},
	{group: groupTasks, name: "once", beside: true, bind: boolean(func(r *Raw) *bool { return &r.Once }),
		usage: "reconcile once; exit 0 when the kernel equals the plan"},

	{group: groupServices, name: "external-address-mode", path: "externalAddressMode", beside: true, bind: text(func(r *Raw) *string { return &r.ExternalAddressMode }),
		usage: "capture takes external addresses port by port, bind binds them to kube-ipvs0"},
	{group: groupServices, name: "allow-external-cidrs", path: "allowExternalCIDRs", beside: true, bind: list(func(r *Raw) *[]string { return &r.AllowExternalCIDRs }),
		usage: "`CIDRs` of externalIPs and load balancers' addresses that may be served"},
	{group: groupServices, name: "cluster-ip-binding", path: "clusterIPBinding", beside: true, bind: text(func(r *Raw) *string { return &r.ClusterIPBinding }),
		usage: "ClusterIPs become local by address on kube-ipvs0, or by route, which stays fast with many thousands"},
	{group: groupServices, name: "drain-timeout", path: "drainTimeout", beside: true, live: true, bind: duration(func(r *Raw) *time.Duration { return &r.DrainTimeout.Duration }),
		usage: "how long a TCP endpoint that left may keep its connections; 0 ends them at once, negative never"},
	{group: groupServices, name: "refresh-period", path: "refreshPeriod", beside: true, bind: duration(func(r *Raw) *time.Duration { return &r.RefreshPeriod.Duration }),
		usage: "time in which the kernel is read and compared once; 0: only after a sign of damage"},
	{group: groupServices, name: "strict-mode", path: "strictMode", beside: true, bind: boolean(func(r *Raw) *bool { return &r.StrictMode }),
		usage: "refuse a mode of kube-proxy other than ipvs, instead of a warning"},

	{group: groupTraffic, name: "node-port-range", path: "nodePortRange", beside: true, live: true, bind: text(func(r *Raw) *string { return &r.NodePortRange }),
		usage: "`range` of NodePorts; masquerading takes its ports outside of it (empty: takes any)"},
	{group: groupTraffic, name: "accept-input", path: "acceptInput", beside: true, live: true, bind: boolean(func(r *Raw) *bool { return &r.AcceptInput }),
		usage: "accept traffic to Services in INPUT, so that a default-deny firewall does not stop it"},
	{group: groupTraffic, name: "iptables-backend", path: "iptablesBackend", beside: true, bind: text(func(r *Raw) *string { return &r.IPTablesBackend }),
		usage: "auto finds the one in which the kubelet and Service proxies have chains, else takes plain iptables; nft and legacy name one"},

	{group: groupIPVS, name: "traffic-metrics", path: "trafficMetrics", beside: true, bind: number(func(r *Raw) *int32 { return &r.TrafficMetrics }),
		usage: "`number` of Services that have connections, packets and bytes of their own in /metrics; others are added up (0: no such metrics)"},
	{group: groupIPVS, name: "ipvs-run-estimation", path: "ipvsRunEstimation", beside: true, bind: optional(func(r *Raw) **bool { return &r.IPVSRunEstimation }),
		usage: "let IPVS estimate rates, which costs CPU with very many real servers (default: leave the kernel's setting)"},
}

// idleOptions are flags of kube-proxy without effect here. Their usage says why, and
// is said once in the log when a value differs from the default.
var idleOptions = []option{
	{group: groupIdle, name: "ipvs-exclude-cidrs", path: "ipvs.excludeCIDRs", bind: list(func(r *Raw) *[]string { return &r.IPVS.ExcludeCIDRs }),
		usage: "servers of others are never touched"},
	{group: groupIdle, name: "config-sync-period", path: "configSyncPeriod", bind: duration(func(r *Raw) *time.Duration { return &r.ConfigSyncPeriod.Duration }),
		usage: "objects are read when they change, and nothing of them is forgotten"},
	{group: groupIdle, name: "iptables-localhost-nodeports", path: "iptables.localhostNodePorts", bind: boolean(func(r *Raw) *bool { return r.IPTables.LocalhostNodePorts }),
		usage: "is for mode iptables"},
	{group: groupIdle, name: "iptables-sync-period", path: "iptables.syncPeriod", bind: duration(func(r *Raw) *time.Duration { return &r.IPTables.SyncPeriod.Duration }),
		usage: "is for mode iptables, see ipvs.syncPeriod"},
	{group: groupIdle, name: "iptables-min-sync-period", path: "iptables.minSyncPeriod", bind: duration(func(r *Raw) *time.Duration { return &r.IPTables.MinSyncPeriod.Duration }),
		usage: "is for mode iptables, see ipvs.minSyncPeriod"},
	{group: groupIdle, name: "show-hidden-metrics-for-version", path: "showHiddenMetricsForVersion", bind: text(func(r *Raw) *string { return &r.ShowHiddenMetricsForVersion }),
		usage: "no metric is hidden"},
	{group: groupIdle, name: "log-flush-frequency", path: "logging.flushFrequency", beside: true, bind: duration(func(r *Raw) *time.Duration { return &r.Logging.FlushFrequency.Duration.Duration }),
		usage: "the log is not buffered"},
	{group: groupIdle, name: "vmodule", path: "logging.vmodule", beside: true, bind: value(func(r *Raw) pflag.Value { return logsapi.VModuleConfigurationPflag(&r.Logging.VModule) }),
		usage: "there is one log level"},
	{group: groupIdle, name: "log-text-split-stream", path: "logging.options.text.splitStream", beside: true, bind: boolean(func(r *Raw) *bool { return &r.Logging.Options.Text.SplitStream }),
		usage: "the log goes to standard error"},
	{group: groupIdle, name: "log-text-info-buffer-size", path: "logging.options.text.infoBufferSize", beside: true, bind: value(func(r *Raw) pflag.Value { return &r.Logging.Options.Text.InfoBufferSize }),
		usage: "the log is not buffered"},
	{group: groupIdle, name: "log-json-split-stream", path: "logging.options.json.splitStream", beside: true, bind: boolean(func(r *Raw) *bool { return &r.Logging.Options.JSON.SplitStream }),
		usage: "the log goes to standard error"},
	{group: groupIdle, name: "log-json-info-buffer-size", path: "logging.options.json.infoBufferSize", beside: true, bind: value(func(r *Raw) pflag.Value { return &r.Logging.Options.JSON.InfoBufferSize }),
		usage: "the log is not buffered"},
}
