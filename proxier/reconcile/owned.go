package reconcile

import (
	"net/netip"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// journal are the kinds whose members are frontends, NodePorts apart.
var journal = []ipsetutil.Kind{
	ipsetutil.ClusterIP, ipsetutil.ExternalIP, ipsetutil.ExternalIPLocal,
	ipsetutil.LoadBalancer, ipsetutil.NodePortSCTP, ipsetutil.Capture,
}

// owns says whether a virtual server that was found is ours. The sets are the
// journal: members go in before their server and come out after it. So a server is
// ours if its frontend is a member of one of our sets, if its address is bound or
// captured by us, or if its mark is that of a member. All others are foreign and
// never touched.
func (p *picture) owns(key ipvsutil.Key) bool {
	if key.Mark != 0 {
		return len(p.bearers[key]) > 0
	}
	addr := key.Addr.Addr()
	if has(p.bound, addr) || has(p.captured, addr) {
		return true
	}
	for _, kind := range journal {
		if _, ok := p.member(plan.MemberOf(kind, key)); ok {
			return true
		}
	}
	return p.ownsNodePort(key, addr)
}

// ownsNodePort: the port is one of ours and the address one that serves NodePorts.
func (p *picture) ownsNodePort(key ipvsutil.Key, addr netip.Addr) bool {
	kind := ipsetutil.NodePortTCP
	switch key.Protocol {
	case ipvsutil.TCP:
	case ipvsutil.UDP:
		kind = ipsetutil.NodePortUDP
	default:
		return false
	}
	_, node := p.member(ipsetutil.Member{
		Set: ipsetutil.NodeIP.Name(addr.Is6()), Entry: ipsetutil.Entry{Addr: addr},
	})
	_, port := p.member(plan.MemberOf(kind, key))
	return node && port
}

// journalProtocol is "no next header" (IANA number 59), which no packet to a
// Service has: entries with it are for the journal alone.
const journalProtocol = 59

// markEntry is the entry by which a mark server is known as ours when no frontend
// bears its mark any more: an address made of the mark, which is none of a host.
func markEntry(key ipvsutil.Key) ipsetutil.Member {
	mark := key.Mark
	low := [4]byte{0, byte(mark >> 16), byte(mark >> 8), byte(mark)}
	addr := netip.AddrFrom4(low)
	if key.IsIPv6() {
		addr = netip.AddrFrom16([16]byte{12: byte(mark >> 24), 13: low[1], 14: low[2], 15: low[3]})
	}
	return ipsetutil.Member{
		Set:   ipsetutil.ShortCircuit.Name(key.IsIPv6()),
		Entry: ipsetutil.Entry{Addr: addr, Protocol: journalProtocol},
	}
}

func has[K comparable](keys map[K]struct{}, key K) bool {
	_, ok := keys[key]
	return ok
}
