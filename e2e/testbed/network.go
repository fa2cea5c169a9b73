package testbed

import (
	"errors"
	"fmt"
	"net/netip"
)

// Network is the lab without its proxies: hosts, pods, devices and routes.
type Network struct {
	hosts map[string]*Host
	wan   *Host
}

// NewNetwork builds all hosts and pods of the table. It needs root.
func NewNetwork() (*Network, error) {
	n := &Network{hosts: map[string]*Host{}}
	if err := n.build(); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// Host returns a host or a pod by the name it has in the table; it panics for
// other names.
func (n *Network) Host(name string) *Host {
	h := n.hosts[name]
	if h == nil {
		panic("testbed: no host " + name)
	}
	return h
}

// Close takes the network down. Processes that still run keep their namespace.
func (n *Network) Close() error {
	var err error
	for _, h := range n.hosts {
		err = errors.Join(err, h.close())
	}
	if n.wan != nil {
		err = errors.Join(err, n.wan.close())
	}
	n.hosts, n.wan = nil, nil
	return err
}

func (n *Network) build() error {
	if err := n.buildWAN(); err != nil {
		return err
	}
	for _, spec := range hostSpecs {
		if err := n.buildHost(spec); err != nil {
			return err
		}
	}
	for _, spec := range podSpecs {
		if err := n.buildPod(spec); err != nil {
			return err
		}
	}
	return n.route()
}

// buildWAN makes the bridge between client and nodes, which is also the nodes'
// gateway to nowhere.
func (n *Network) buildWAN() error {
	var err error
	if n.wan, err = newHost("wan"); err != nil {
		return err
	}
	if err := n.wan.addBridge("wan0"); err != nil {
		return err
	}
	return errors.Join(
		n.wan.AddAddr("wan0", gateway.v4, 24),
		n.wan.AddAddr("wan0", gateway.v6, 64),
		n.wan.swallow(IPv4),
		n.wan.swallow(IPv6),
	)
}

// buildHost makes the client or a node, as far as it needs no other.
func (n *Network) buildHost(spec hostSpec) error {
	h, err := newHost(spec.name)
	if err != nil {
		return err
	}
	n.hosts[spec.name] = h
	h.addr, h.second = spec.addr(false), spec.addr(true)
	if err := h.plug(n.wan, "wan0", spec.name); err != nil {
		return err
	}
	// IPv6 prefers the newest of equal addresses as source: the main one comes last.
	for _, a := range []pair[netip.Addr]{h.second, h.addr} {
		if err := errors.Join(h.AddAddr("eth0", a.v4, 24), h.AddAddr("eth0", a.v6, 64)); err != nil {
			return err
		}
	}
	if spec.zone == "" {
		return nil
	}
	if err := errors.Join(
		h.SetSysctl("net/ipv4/ip_forward", "1"),
		h.SetSysctl("net/ipv6/conf/all/forwarding", "1"),
		// Packets leave the node by the device they came from, for which IPv6 sends
		// redirects that no sysctl turns off. They use up what a peer may get of
		// ICMP errors, and refusals would come late.
		h.SetSysctl("net/ipv6/icmp/ratelimit", "0"),
		h.addBridge("cbr0"),
	); err != nil {
		return err
	}
	own := spec.podAddr(1)
	return errors.Join(h.AddAddr("cbr0", own.v4, 24), h.AddAddr("cbr0", own.v6, 64))
}

// buildPod makes a pod that knows its node and nobody else on the bridge.
func (n *Network) buildPod(spec podSpec) error {
	h, err := newHost(spec.name)
	if err != nil {
		return err
	}
	n.hosts[spec.name] = h
	h.Node = spec.node
	node := nodeSpec(spec.node)
	h.addr = node.podAddr(spec.number)
	if err := h.plug(n.Host(spec.node), "cbr0", "veth"+spec.name); err != nil {
		return err
	}
	for _, f := range Families() {
		addr, gw := h.Addr(f), node.podAddr(1).of(f)
		if err := errors.Join(
			h.AddAddr("eth0", addr, addr.BitLen()),
			h.Route(alone(gw), "eth0", netip.Addr{}),
			h.Route(everywhere(f), "eth0", gw),
		); err != nil {
			return err
		}
	}
	return nil
}

// route connects the hosts' networks.
func (n *Network) route() error {
	for _, from := range hostSpecs {
		for _, f := range Families() {
			if err := n.routeFrom(from, f); err != nil {
				return err
			}
		}
	}
	return n.RouteServices(Node1)
}

func (n *Network) routeFrom(from hostSpec, f Family) error {
	h := n.Host(from.name)
	for _, to := range hostSpecs {
		if to.zone == "" || to.name == from.name {
			continue
		}
		if err := h.Route(to.podNetwork().of(f), "eth0", n.Host(to.name).Addr(f)); err != nil {
			return err
		}
	}
	if from.zone == "" {
		return nil
	}
	return h.Route(everywhere(f), "eth0", gateway.of(f))
}

// RouteServices lets the client reach ClusterIPs, external and load balancer
// addresses by way of a node.
func (n *Network) RouteServices(node string) error {
	client, via := n.Host(Client), n.Host(node)
	for _, f := range Families() {
		for _, r := range []netip.Prefix{serviceRange.of(f), lbRange.of(f), lbRange2.of(f)} {
			if err := client.Route(r, "eth0", via.Addr(f)); err != nil {
				return fmt.Errorf("services via %s: %w", node, err)
			}
		}
	}
	return nil
}

// Nodes returns the nodes in order.
func (n *Network) Nodes() []*Host {
	return []*Host{n.Host(Node1), n.Host(Node2), n.Host(Node3)}
}

func nodeSpec(name string) hostSpec {
	for _, s := range hostSpecs {
		if s.name == name {
			return s
		}
	}
	panic("testbed: no node " + name)
}
