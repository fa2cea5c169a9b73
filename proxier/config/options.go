package config

import (
	"net/netip"
	"time"
)

// LocalMode says how traffic of this node's pods is told from other traffic
// (KEP-2450).
type LocalMode string

// The modes of kube-proxy.
const (
	ClusterCIDR         LocalMode = "ClusterCIDR"
	NodeCIDR            LocalMode = "NodeCIDR"
	BridgeInterface     LocalMode = "BridgeInterface"
	InterfaceNamePrefix LocalMode = "InterfaceNamePrefix"
)

// Options is the validated configuration.
type Options struct {
	// Manifests is a folder that takes the place of the API server; empty: API counts.
	Manifests string
	API       API
	Once      bool

	// NodeName is trimmed and in lower case, and never empty.
	NodeName string
	// BindAddress is the node's primary address in place of its Node's; invalid: the
	// Node's counts.
	BindAddress netip.Addr
	OOMScoreAdj int

	LocalMode     LocalMode
	ClusterCIDRs  []netip.Prefix // at most one a family
	Interface     string         // bridge or prefix, by LocalMode
	MasqueradeAll bool
	MasqueradeBit uint8 // 0 to 31
	// MasqueradePorts is the range from which masquerading takes ports, so that it
	// never takes a NodePort's; zero means any.
	MasqueradePorts [2]uint16
	AcceptInput     bool
	// IPTablesBackend is "nft" or "legacy"; empty: the one that the host uses.
	IPTablesBackend string

	// Scheduler is never empty. It is a possible name; whether the kernel has it is
	// not known here.
	Scheduler string
	StrictARP bool
	Timeouts  Timeouts
	// RunEstimation is the sysctl net.ipv4.vs.run_estimation; nil leaves it alone.
	RunEstimation *bool

	// NodePorts holds the selectors, valid and as written; package host understands
	// them. None means all.
	NodePorts []string
	// BindExternal binds external addresses to kube-ipvs0 instead of capturing them.
	BindExternal bool
	// BindByRoute makes ClusterIPs local by routes instead of addresses.
	BindByRoute bool
	// NoExternalIPs leaves externalIPs of Services unserved.
	NoExternalIPs bool
	// AllowExternalCIDRs bounds external addresses; nil leaves the choice to the proxy.
	AllowExternalCIDRs []netip.Prefix

	Conntrack Conntrack
	// TCPBeLiberal is Conntrack's, for the rule that goes with the sysctl.
	TCPBeLiberal bool

	// SyncPeriod is half of the time that a change may wait until the node is unhealthy.
	SyncPeriod    time.Duration
	MinSyncPeriod time.Duration // zero: none
	DrainTimeout  time.Duration // zero: at once; negative: never
	RefreshPeriod time.Duration // zero: only after a sign of damage

	// HealthAddress and MetricsAddress are IP:port; empty turns a server off.
	HealthAddress, MetricsAddress string
	BindHardFail                  bool
	// TrafficMetrics is how many Services have traffic metrics of their own; zero turns
	// these off.
	TrafficMetrics int
	Profiling      bool

	JSONLog bool
	Debug   bool

	// WrongMode is the mode of the configuration when it is not this proxy's; empty
	// otherwise. It is worth an Event on the Node.
	WrongMode string
	// Notes are what the operator should be told once.
	Notes []Note
}

// API is the access to the API server.
type API struct {
	Kubeconfig string // empty, and Master too: the pod's own access
	Master     string // URL; wins over that of Kubeconfig
	// AcceptContentTypes is empty when ContentType is to be accepted.
	AcceptContentTypes, ContentType string
	QPS                             float32 // negative: no limit
	Burst                           int
}

// Timeouts are the idle limits of IPVS, in whole seconds; zero leaves the kernel's
// value, save that TCP then must not be below conntrack's.
type Timeouts struct {
	TCP, TCPFin, UDP time.Duration
}

// Conntrack are the settings of connection tracking; the zero value leaves all alone.
type Conntrack struct {
	MaxPerCore     int32 // entries an online CPU; zero leaves the table's size alone
	Min            int32 // least size of the table when MaxPerCore is set
	TCPEstablished time.Duration
	TCPCloseWait   time.Duration
	UDP            time.Duration
	UDPStream      time.Duration
	TCPBeLiberal   bool
}
