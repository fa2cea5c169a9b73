package ipsetutil

import "strings"

// Kind names a pair of sets, one for each family. Kinds with a KUBE- name are
// those of kube-proxy's ipvs mode and keep exactly its type, and its size as long as
// that is enough (Set.Fits), so that either proxy can start after the other; what
// needs more has a KIPVS- name.
type Kind uint8

// All kinds of sets. "Frontend" below is an (address, protocol, port) of a Service.
const (
	// LoopBack: (endpoint, port, endpoint) of endpoints on this node; for hairpin.
	LoopBack Kind = iota
	// ClusterIP: frontends on ClusterIPs.
	ClusterIP
	// ExternalIP: frontends on externalIPs with externalTrafficPolicy Cluster.
	ExternalIP
	// ExternalIPLocal: the same with externalTrafficPolicy Local.
	ExternalIPLocal
	// LoadBalancer: frontends on load-balancer addresses, whatever the policy.
	LoadBalancer
	// LoadBalancerLocal: those of them with externalTrafficPolicy Local.
	LoadBalancerLocal
	// LoadBalancerFW: those of them with source ranges.
	LoadBalancerFW
	// LoadBalancerSourceIP: (address, port, address) when the node itself is in the ranges.
	LoadBalancerSourceIP
	// LoadBalancerSourceCIDR: (address, port, source range).
	LoadBalancerSourceCIDR
	// NodePortTCP: all TCP NodePorts. It counts only together with NodeIP.
	NodePortTCP
	// NodePortLocalTCP: those with externalTrafficPolicy Local.
	NodePortLocalTCP
	// NodePortUDP: all UDP NodePorts.
	NodePortUDP
	// NodePortLocalUDP: those with externalTrafficPolicy Local.
	NodePortLocalUDP
	// NodePortSCTP: (node address, SCTP NodePort).
	NodePortSCTP
	// NodePortLocalSCTP: those with externalTrafficPolicy Local.
	NodePortLocalSCTP
	// HealthCheckNodePort: TCP ports of the health checks of load balancers.
	HealthCheckNodePort
	// IPVSIPs: the addresses bound on kube-ipvs0.
	IPVSIPs
	// NodeIP: the node's addresses that serve NodePorts.
	NodeIP
	// Capture: frontends on external addresses that the node takes without owning the address.
	Capture
	// ShortCircuit: frontends with externalTrafficPolicy Local; the mark of each
	// leads clients on this node to a firewall-mark server with all endpoints.
	ShortCircuit
	// DropOutside: frontends with externalTrafficPolicy Local and no endpoint on this node.
	DropOutside
	// DropAll: frontends with internalTrafficPolicy Local and no endpoint on this node.
	DropAll
	// Refuse: frontends without any usable endpoint anywhere.
	Refuse

	kinds
)

type template struct {
	name  string
	typ   Type
	marks bool
}

// templates is indexed by Kind.
var templates = [kinds]template{
	LoopBack:               {"KUBE-LOOP-BACK", HashIPPortIP, false},
	ClusterIP:              {"KUBE-CLUSTER-IP", HashIPPort, false},
	ExternalIP:             {"KUBE-EXTERNAL-IP", HashIPPort, false},
	ExternalIPLocal:        {"KUBE-EXTERNAL-IP-LOCAL", HashIPPort, false},
	LoadBalancer:           {"KUBE-LOAD-BALANCER", HashIPPort, false},
	LoadBalancerLocal:      {"KUBE-LOAD-BALANCER-LOCAL", HashIPPort, false},
	LoadBalancerFW:         {"KUBE-LOAD-BALANCER-FW", HashIPPort, false},
	LoadBalancerSourceIP:   {"KUBE-LOAD-BALANCER-SOURCE-IP", HashIPPortIP, false},
	LoadBalancerSourceCIDR: {"KUBE-LOAD-BALANCER-SOURCE-CIDR", HashIPPortNet, false},
	NodePortTCP:            {"KUBE-NODE-PORT-TCP", BitmapPort, false},
	NodePortLocalTCP:       {"KUBE-NODE-PORT-LOCAL-TCP", BitmapPort, false},
	NodePortUDP:            {"KUBE-NODE-PORT-UDP", BitmapPort, false},
	NodePortLocalUDP:       {"KUBE-NODE-PORT-LOCAL-UDP", BitmapPort, false},
	NodePortSCTP:           {"KUBE-NODE-PORT-SCTP-HASH", HashIPPort, false},
	NodePortLocalSCTP:      {"KUBE-NODE-PORT-LOCAL-SCTP-HASH", HashIPPort, false},
	HealthCheckNodePort:    {"KUBE-HEALTH-CHECK-NODE-PORT", BitmapPort, false},
	IPVSIPs:                {"KUBE-IPVS-IPS", HashIP, false},
	NodeIP:                 {"KIPVS-NODE-IP", HashIP, false},
	Capture:                {"KIPVS-CAPTURE", HashIPPort, false},
	ShortCircuit:           {"KIPVS-SHORT-CIRCUIT", HashIPPort, true},
	DropOutside:            {"KIPVS-DROP-OUTSIDE", HashIPPort, false},
	DropAll:                {"KIPVS-DROP-ALL", HashIPPort, false},
	Refuse:                 {"KIPVS-REFUSE", HashIPPort, false},
}

// ownPrefix begins the names of sets that kube-proxy does not have.
const ownPrefix = "KIPVS-"

// maxNameLen is the kernel's limit (IPSET_MAXNAMELEN less the final zero).
const maxNameLen = 31

// defaultMaxElem is kube-proxy's size of a hash set.
const defaultMaxElem = 65536

// For returns the set of this kind for IPv6 or IPv4. IPv6 names have "6-" after
// the first dash and are cut at 31 characters, as kube-proxy's are.
func (k Kind) For(ipv6 bool) Set {
	t := templates[k]
	set := Set{Name: k.Name(ipv6), Type: t.typ, Marks: t.marks}
	if t.typ == BitmapPort {
		return set
	}
	set.MaxElem = defaultMaxElem
	set.Family = IPv4
	if ipv6 {
		set.Family = IPv6
	}
	return set
}

// Name returns the name of the set of this kind for IPv6 or IPv4.
func (k Kind) Name(ipv6 bool) string {
	name := templates[k].name
	if !ipv6 {
		return name
	}
	prefix, rest, _ := strings.Cut(name, "-")
	name = prefix + "-6-" + rest
	return name[:min(len(name), maxNameLen)]
}

// All returns every set that the proxy owns, IPv4 first, in the order of kinds.
func All() []Set {
	sets := make([]Set, 0, 2*kinds)
	for _, ipv6 := range []bool{false, true} {
		for k := range kinds {
			sets = append(sets, k.For(ipv6))
		}
	}
	return sets
}
