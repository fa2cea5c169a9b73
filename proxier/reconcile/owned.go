package reconcile

import (
	"net/netip"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// ownership says which observed virtual servers are ours. The sets are our
// journal: members go in before their server and come out after it. So a server
// is ours if its frontend is a member of one of our sets, if its address is bound
// or captured by us, or if its mark is that of a member. All others are foreign
// and never touched.
type ownership struct {
	seen  *observed
	marks map[ipvsutil.Key]bool
}

func newOwnership(seen *observed) ownership {
	o := ownership{seen: seen, marks: map[ipvsutil.Key]bool{}}
	for m, mark := range seen.members {
		if mark != 0 {
			o.marks[ipvsutil.MarkKey(mark, m.Entry.Addr.Is6())] = true
		}
	}
	return o
}

// journal are the kinds whose members are frontends, NodePorts apart.
var journal = []ipsetutil.Kind{
	ipsetutil.ClusterIP, ipsetutil.ExternalIP, ipsetutil.ExternalIPLocal,
	ipsetutil.LoadBalancer, ipsetutil.NodePortSCTP, ipsetutil.Capture,
}

func (o ownership) has(key ipvsutil.Key) bool {
	if key.Mark != 0 {
		return o.marks[key]
	}
	addr := key.Addr.Addr()
	if o.seen.bound[addr] || o.seen.captured[addr] {
		return true
	}
	for _, kind := range journal {
		if o.member(plan.MemberOf(kind, key)) {
			return true
		}
	}
	return o.nodePort(key, addr)
}

// nodePort: the port is one of ours and the address one that serves NodePorts.
func (o ownership) nodePort(key ipvsutil.Key, addr netip.Addr) bool {
	kind := ipsetutil.NodePortTCP
	switch key.Protocol {
	case ipvsutil.TCP:
	case ipvsutil.UDP:
		kind = ipsetutil.NodePortUDP
	default:
		return false
	}
	node := ipsetutil.Member{
		Set: ipsetutil.NodeIP.Name(addr.Is6()), Entry: ipsetutil.Entry{Addr: addr},
	}
	return o.member(node) && o.member(plan.MemberOf(kind, key))
}

func (o ownership) member(m ipsetutil.Member) bool {
	_, ok := o.seen.members[m]
	return ok
}
