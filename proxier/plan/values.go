// Package plan turns one Service into what it wants from the kernel: its Claims.
// It is pure (no clock, network, process or Kubernetes client), and all semantics
// of Services live here. The reference is the Service API as kube-proxy's iptables
// and nftables modes implement it.
package plan

import (
	"net/netip"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// ServiceName is the namespace and name of a Service.
type ServiceName struct {
	Namespace, Name string
}

// String returns "namespace/name".
func (n ServiceName) String() string { return n.Namespace + "/" + n.Name }

// ServiceType is core/v1 ServiceType; the zero value means ClusterIP.
type ServiceType uint8

// The types of Services.
const (
	ClusterIP ServiceType = iota
	NodePort
	LoadBalancer
	ExternalName
)

// Service is a Service as the reader of manifests or of the API server found it:
// fields that do not parse were dropped and reported there, nothing was decided.
type Service struct {
	Name    ServiceName
	Created time.Time // creationTimestamp; decides conflicts; zero sorts first
	Type    ServiceType
	// ClusterIPs holds one address for each family; empty for a headless Service.
	ClusterIPs  []netip.Addr
	ExternalIPs []netip.Addr
	// LoadBalancerIPs are the status addresses with ipMode VIP or none (KEP-1860).
	LoadBalancerIPs []netip.Addr
	// SourceRanges are spec.loadBalancerSourceRanges, masked; a zero-length prefix
	// opens its family.
	SourceRanges []netip.Prefix
	Ports        []Port
	// ExternalLocal and InternalLocal: the traffic policy is Local (KEP-2086).
	ExternalLocal, InternalLocal bool
	// Persistence is the session affinity ClientIP timeout in seconds; zero means none.
	Persistence uint32
	// HealthCheckNodePort is zero when there is none.
	HealthCheckNodePort uint16
	// DrainTimeout is the Service's own wish of how long a real server that left may
	// keep its connections (annotation kube-ipvs-proxy/drain-timeout): zero ends them
	// at once, a negative value never. Nil: the operator's value counts.
	DrainTimeout *time.Duration
	// Scheduler is the Service's own; empty: that of the configuration.
	Scheduler string
	// SchedulerFlags are the Service's own, by the scheduler that knows them; nil: as
	// the scheduler has them by default. Those of another scheduler are a problem.
	SchedulerFlags map[string]ipvsutil.Flags
	// Weights of endpoints, by address; those that are missing have 1.
	Weights map[netip.Addr]uint32
	// NodeLocal: a local server has the Service's addresses on this node (node-local
	// DNS, say), and this proxy leaves them alone.
	NodeLocal bool
}

// Port is one port of a Service. Name may be empty; NodePort zero means none.
type Port struct {
	Name     string
	Protocol ipvsutil.Protocol
	Port     uint16
	NodePort uint16
}

// Endpoint is one address and port out of the EndpointSlices of a Service. An
// endpoint with two ports appears twice.
type Endpoint struct {
	PortName string
	Protocol ipvsutil.Protocol
	Addr     netip.AddrPort
	// NodeName is empty when unknown; such an endpoint is local to no node.
	NodeName string
	// Ready is true unless said otherwise, Serving too (discovery/v1 conditions).
	Ready, Serving, Terminating bool
	// Zones and Nodes are the topology hints (KEP-2433, KEP-3015).
	Zones, Nodes []string
	// Pod is the name of the pod behind it, in the namespace of the Service; empty when
	// unknown. It is for people and decides nothing.
	Pod string
}

// Node is the node that the plan is made for.
type Node struct {
	Name string
	Zone string // label topology.kubernetes.io/zone; empty: hints of zones are ignored
	// IPs are the Node's own addresses, the primary first, at most one a family.
	IPs []netip.Addr
	// Addrs are all addresses of the host's devices but kube-ipvs0. An external
	// address among them is served per port and neither bound nor captured.
	Addrs []netip.Addr
	// NodePortAddrs are those of Addrs that serve NodePorts.
	NodePortAddrs []netip.Addr
}

// Config is what the operator chose for all Services.
type Config struct {
	// Scheduler is an IPVS scheduler's name; empty means rr.
	Scheduler string
	// HasScheduler tells whether the kernel has a scheduler that a Service chose; nil:
	// it has all. One that it has not would fail on every node for ever.
	HasScheduler func(name string) bool
	// BindExternal binds external addresses to kube-ipvs0, as kube-proxy does,
	// instead of capturing them for each port.
	BindExternal bool
	// NoExternalIPs leaves spec.externalIPs unserved (gate AllowServiceExternalIPs off).
	NoExternalIPs bool
	// AllowExternal bounds external addresses of both kinds: those outside are
	// refused. Empty allows every address that can be served. An address of the node
	// is served in any case, port by port.
	AllowExternal []netip.Prefix
	// Reserved are addresses and TCP ports that no external frontend may have: those at
	// which this node reaches the API server. Whoever may write Services could otherwise
	// cut every node off. A ClusterIP is served even if it is one of them.
	Reserved []netip.AddrPort
	// NoIPv6: the host has no IPv6, so that only IPv4 is served.
	NoIPv6 bool
	// LoopbackNodePorts: NodePorts are wanted on loopback addresses, too.
	LoopbackNodePorts bool
}

// PortKey names one port of a Service in one family.
type PortKey struct {
	Name     string
	Protocol ipvsutil.Protocol
	IPv6     bool
}

// Frontend is an (address, protocol, port) that a Service wants to serve. Two
// Services cannot both have one: the ledger decides, and then everything of it
// counts or nothing.
type Frontend struct {
	Server ipvsutil.VirtualServer
	// RealServers are sorted by address.
	RealServers []ipvsutil.RealServer
	// Serving are, for UDP and SCTP, all endpoints of the port that still serve, on
	// any node, sorted: flows to one that is not chosen any more may go on.
	Serving []netip.AddrPort
	// Members are the entries that only the owner of the frontend may have.
	Members []ipsetutil.Member
	// ClusterIP: the address is the Service's own. Such a claim wins over that of any
	// Service which only names the address.
	ClusterIP bool
	// ShortCircuit: clients on this node are led to the ShortCircuit of Port.
	ShortCircuit bool
	Port         PortKey
}

// ShortCircuit is a firewall-mark server with all endpoints of a port, for clients
// on this node of frontends with externalTrafficPolicy Local. The ledger gives it
// its mark; Server.Key is zero until then.
type ShortCircuit struct {
	Port        PortKey
	Server      ipvsutil.VirtualServer
	RealServers []ipvsutil.RealServer
	// Serving is that of Frontend.
	Serving []netip.AddrPort
}

// HealthCheck is what the health check of a load balancer answers. Port zero
// means that the Service has none.
type HealthCheck struct {
	Port uint16
	// LocalReady counts the distinct ready endpoint addresses on this node, for
	// IPv4 and IPv6.
	LocalReady [2]int
}

// NoLocal counts ports that have endpoints, but none on this node, and a policy that
// asks for one; each for IPv4 and IPv6.
type NoLocal struct {
	// Internal are ports with internalTrafficPolicy Local, External those with
	// externalTrafficPolicy Local.
	Internal, External [2]int
}

// Claims is all that one Service wants. The zero value wants nothing.
type Claims struct {
	Frontends     []Frontend
	ShortCircuits []ShortCircuit
	// Bound are addresses wanted on kube-ipvs0, Captured those wanted in the
	// capture table. Several Services may want the same.
	Bound, Captured []netip.Addr
	// Members are entries that several Services may want.
	Members     []ipsetutil.Member
	HealthCheck HealthCheck
	NoLocal     NoLocal
	// DrainTimeout is that of the Service.
	DrainTimeout *time.Duration
	// Loopback are the NodePorts to serve on loopback addresses; only with
	// Config.LoopbackNodePorts.
	Loopback []LoopbackPort
}

// LoopbackPort is a TCP NodePort that is served on the loopback address of a family,
// by copying. To is what a process of the node would ask instead, and tells the family.
type LoopbackPort struct {
	NodePort uint16
	To       netip.AddrPort
}

// Problem is something in a Service that cannot be served: which part, and why.
// The rest of the Service is served all the same.
type Problem struct {
	Service ServiceName
	Part    string // for example "externalIP 127.0.0.1" or "port http"
	Reason  string
}

// String returns "default/web: externalIP 127.0.0.1: is a loopback address".
func (p Problem) String() string {
	return p.Service.String() + ": " + p.Part + ": " + p.Reason
}
