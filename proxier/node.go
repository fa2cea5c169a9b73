package proxier

import (
	"cmp"
	"context"
	"net/netip"
	"slices"

	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/watch"
)

// refreshNode brings the node's value up to date; when it became another one, all
// Services are dirty. A listing of addresses that fails keeps those known: nothing
// is taken away because something could not be read. They are listed only after
// they changed: among many bound addresses that takes long.
func (p *Proxier) refreshNode(ctx context.Context, dirty *watch.Dirty) error {
	info, known := p.source.Node()
	addrs, err := p.node.Addrs, error(nil)
	if p.listAddrs {
		addrs, err = p.host.Addrs(ctx)
		p.listAddrs = err != nil
	}
	if err != nil {
		addrs = p.node.Addrs
	}
	node := plan.Node{Name: p.config.NodeName, Addrs: addrs}
	if known {
		node.Zone, node.IPs = info.Zone, onePerFamily(info.IPs)
		p.followPodCIDRs(info.PodCIDRs)
	}
	node.NodePortAddrs = p.nodePorts(addrs, node.IPs)
	if !sameNode(p.node, node) {
		p.node = node
		dirty.All = true
	}
	return err
}

// followPodCIDRs tells that the Node has other pod networks than before, and has the
// rules made anew. A Node that lost them is about to get new ones.
func (p *Proxier) followPodCIDRs(now []netip.Prefix) {
	if p.config.PodCIDRs == nil || len(now) == 0 || slices.Equal(p.podCIDRs, now) {
		return
	}
	p.podCIDRs = now
	p.config.PodCIDRs(now)
	p.kernel.EnsureRules()
}

// onePerFamily keeps the first address of each family.
func onePerFamily(ips []netip.Addr) []netip.Addr {
	var kept []netip.Addr
	for _, ip := range ips {
		if !slices.ContainsFunc(kept, func(k netip.Addr) bool { return k.Is6() == ip.Is6() }) {
			kept = append(kept, ip)
		}
	}
	return kept
}

func sameNode(a, b plan.Node) bool {
	return a.Name == b.Name && a.Zone == b.Zone && slices.Equal(a.IPs, b.IPs) &&
		slices.Equal(a.Addrs, b.Addrs) && slices.Equal(a.NodePortAddrs, b.NodePortAddrs)
}

// union returns the names of all lists, sorted, each once.
func union(lists ...[]plan.ServiceName) []plan.ServiceName {
	all := slices.Concat(lists...)
	all = slices.DeleteFunc(all, func(n plan.ServiceName) bool { return n == plan.ServiceName{} })
	slices.SortFunc(all, compareNames)
	return slices.Compact(all)
}

func compareNames(a, b plan.ServiceName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}
