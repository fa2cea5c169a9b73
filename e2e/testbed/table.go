// Package testbed builds a small cluster out of network namespaces, runs one
// Service proxy on each node and speaks to it through a folder of manifests.
//
//	name    role    IPv4                       IPv6                       where
//	client  X       172.30.0.5, 172.31.0.5     fd30::5, fd31::5           outside the cluster
//	node-1  N       172.30.0.2, 172.31.0.2     fd30::2, fd31::2           zone z1; cbr0 10.244.1.1, fd44:0:0:1::1
//	node-2  M       172.30.0.3, 172.31.0.3     fd30::3, fd31::3           zone z2; cbr0 10.244.2.1, fd44:0:0:2::1
//	node-3          172.30.0.4, 172.31.0.4     fd30::4, fd31::4           zone z3; cbr0 10.244.3.1, fd44:0:0:3::1
//	c1              10.244.1.5                 fd44:0:0:1::5              client pod on node-1
//	L1      L1      10.244.1.10                fd44:0:0:1::10             pod on node-1
//	L2      L2      10.244.1.11                fd44:0:0:1::11             pod on node-1
//	c2              10.244.2.5                 fd44:0:0:2::5              client pod on node-2
//	Rm      Rm      10.244.2.10                fd44:0:0:2::10             pod on node-2
//	R3              10.244.3.10                fd44:0:0:3::10             pod on node-3
//
// Services are 10.96.0.0/16 and fd96::/108, load balancer and external addresses
// 203.0.113.0/24 and fd20:113::/64 (more: 198.51.100.0/24, fd20:114::/64); the client
// reaches both by way of node-1.
// The network between client and nodes is one bridge, on which 172.30.0.1 and
// fd30::1 is the nodes' default gateway: it leads nowhere. Pods hang on the
// bridge cbr0 of their node, but have no neighbour other than the node: all
// their packets are routed by it.
package testbed

import (
	"fmt"
	"net/netip"
)

// The names of the hosts.
const (
	Client = "client"
	Node1  = "node-1"
	Node2  = "node-2"
	Node3  = "node-3"
)

// The names of the pods.
const (
	PodC1 = "c1"
	PodL1 = "L1"
	PodL2 = "L2"
	PodC2 = "c2"
	PodRm = "Rm"
	PodR3 = "R3"
)

// Family is an IP family.
type Family uint8

// The families; Families holds both.
const (
	IPv4 Family = 4
	IPv6 Family = 6
)

// Families lists both families.
func Families() []Family { return []Family{IPv4, IPv6} }

// String returns the family's name as in Service.spec.ipFamilies.
func (f Family) String() string { return fmt.Sprintf("IPv%d", uint8(f)) }

// FamilyOf is the family of an address.
func FamilyOf(a netip.Addr) Family {
	if a.Is4() {
		return IPv4
	}
	return IPv6
}

// pair holds one value for each family.
type pair[T any] struct{ v4, v6 T }

func (p pair[T]) of(f Family) T {
	if f == IPv4 {
		return p.v4
	}
	return p.v6
}

// The ranges of the cluster.
var (
	serviceRange = prefixes("10.96.0.0/16", "fd96::/108")
	lbRange      = prefixes("203.0.113.0/24", "fd20:113::/64")
	lbRange2     = prefixes("198.51.100.0/24", "fd20:114::/64")
	gateway      = addrs("172.30.0.1", "fd30::1")
)

// ServiceRange is the range of the ClusterIPs.
func ServiceRange(f Family) netip.Prefix { return serviceRange.of(f) }

// ClusterCIDR is the value of --cluster-cidr.
const ClusterCIDR = "10.244.0.0/16,fd44::/48"

// hostSpec is a line of the table for a host on the bridge. number is the last
// part of its addresses; for a node, number-1 is that of its pod network.
type hostSpec struct {
	name   string
	number int
	zone   string // empty: not a node
}

var hostSpecs = []hostSpec{
	{Client, 5, ""},
	{Node1, 2, "z1"},
	{Node2, 3, "z2"},
	{Node3, 4, "z3"},
}

// podSpec is a line of the table for a pod.
type podSpec struct {
	name, node string
	number     int // last part of both addresses, in the family's own digits
}

var podSpecs = []podSpec{
	{PodC1, Node1, 5},
	{PodL1, Node1, 10},
	{PodL2, Node1, 11},
	{PodC2, Node2, 5},
	{PodRm, Node2, 10},
	{PodR3, Node3, 10},
}

// addr is the host's address on its first (172.30) or second (172.31) network.
func (h hostSpec) addr(second bool) pair[netip.Addr] {
	network := 30
	if second {
		network = 31
	}
	return addrs(fmt.Sprintf("172.%d.0.%d", network, h.number), fmt.Sprintf("fd%d::%d", network, h.number))
}

// podNetwork is the range of the node's pods.
func (h hostSpec) podNetwork() pair[netip.Prefix] {
	n := h.number - 1
	return prefixes(fmt.Sprintf("10.244.%d.0/24", n), fmt.Sprintf("fd44:0:0:%d::/64", n))
}

// podAddr is an address of the node's pod network; 1 is the node's own.
func (h hostSpec) podAddr(number int) pair[netip.Addr] {
	n := h.number - 1
	return addrs(fmt.Sprintf("10.244.%d.%d", n, number), fmt.Sprintf("fd44:0:0:%d::%d", n, number))
}

func prefixes(v4, v6 string) pair[netip.Prefix] {
	return pair[netip.Prefix]{netip.MustParsePrefix(v4), netip.MustParsePrefix(v6)}
}

func addrs(v4, v6 string) pair[netip.Addr] {
	return pair[netip.Addr]{netip.MustParseAddr(v4), netip.MustParseAddr(v6)}
}
