// Package room is where one proxy runs at a time: a node in a fresh network namespace,
// a client and all endpoints beside it, and a control group that knows what the proxy
// and its children cost and ends them all.
package room

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// Links between the node and the others; endpoints have no address of their own on
// theirs, since all of their range is local there.
var (
	clientLink = link{"client0", netip.MustParsePrefix("10.224.0.1/30"), netip.MustParsePrefix("10.224.0.2/30")}
	podsLink   = link{"pods0", netip.MustParsePrefix("10.226.0.1/30"), netip.MustParsePrefix("10.226.0.2/30")}
)

// link is a pair of devices with one end on the node.
type link struct {
	name       string
	node, peer netip.Prefix
}

// Room is a node with its surroundings. Close it.
type Room struct {
	// Client asks Services from the client's place.
	Client *Client

	node, client, pods *namespace
	listeners          []net.Listener
	group              *group
}

// New builds a room; groups says where control groups may be made.
func New(groups *Groups) (*Room, error) {
	r := &Room{}
	if err := r.build(groups); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

func (r *Room) build(groups *Groups) (err error) {
	for _, n := range []**namespace{&r.node, &r.client, &r.pods} {
		if *n, err = newNamespace(); err != nil {
			return err
		}
	}
	if err := errors.Join(r.connect(r.client, clientLink), r.connect(r.pods, podsLink), r.nodeIP()); err != nil {
		return err
	}
	// What no proxy has taken is refused at once, where the endpoints are.
	for _, part := range []netip.Prefix{world.Early, world.Late, world.Services} {
		if err := errors.Join(route(r.node, part, podsLink.peer.Addr()), local(r.pods, part)); err != nil {
			return err
		}
	}
	everywhere := netip.MustParsePrefix("0.0.0.0/0")
	if err := errors.Join(route(r.client, everywhere, clientLink.node.Addr()), route(r.pods, everywhere, podsLink.node.Addr())); err != nil {
		return err
	}
	// Buffers of a proxy's connection to the API server are kept small: see api.write.
	if err := r.node.sysctl("net/ipv4/tcp_rmem", "4096 65536 131072"); err != nil {
		return err
	}
	for _, port := range []uint16{world.PodPort, world.APIPort} {
		if err := r.answer(port); err != nil {
			return err
		}
	}
	r.Client = &Client{in: r.client}
	r.group, err = groups.add()
	return err
}

// connect makes the pair of devices between the node and another.
func (r *Room) connect(peer *namespace, l link) error {
	pair := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: l.name}, PeerName: "eth0", PeerNamespace: netlink.NsFd(int(peer.fd.Fd()))}
	if err := r.node.nl.LinkAdd(pair); err != nil {
		return fmt.Errorf("veth %s: %w", l.name, err)
	}
	return errors.Join(address(r.node, l.name, l.node), address(peer, "eth0", l.peer))
}

// nodeIP gives the node the address of its Node.
func (r *Room) nodeIP() error {
	return address(r.node, clientLink.name, netip.PrefixFrom(world.NodeIP, 32))
}

func address(n *namespace, device string, p netip.Prefix) error {
	l, err := n.nl.LinkByName(device)
	if err != nil {
		return fmt.Errorf("%s: %w", device, err)
	}
	if err := n.nl.AddrAdd(l, &netlink.Addr{IPNet: ipNet(p)}); err != nil {
		return fmt.Errorf("%v on %s: %w", p, device, err)
	}
	return n.nl.LinkSetUp(l)
}

func route(n *namespace, to netip.Prefix, via netip.Addr) error {
	if err := n.nl.RouteAdd(&netlink.Route{Dst: ipNet(to), Gw: via.AsSlice()}); err != nil {
		return fmt.Errorf("route %v via %v: %w", to, via, err)
	}
	return nil
}

// local makes all addresses of a range the namespace's own.
func local(n *namespace, p netip.Prefix) error {
	lo, err := n.nl.LinkByName("lo")
	if err != nil {
		return err
	}
	err = n.nl.RouteAdd(&netlink.Route{Dst: ipNet(p), LinkIndex: lo.Attrs().Index, Table: unix.RT_TABLE_LOCAL,
		Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST})
	if err != nil {
		return fmt.Errorf("local route %v: %w", p, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Listen opens a port of the node's loopback.
func (r *Room) Listen() (net.Listener, error) {
	var l net.Listener
	err := r.node.do(func() (err error) {
		l, err = net.Listen("tcp4", "127.0.0.1:0")
		return err
	})
	if err == nil {
		r.listeners = append(r.listeners, l)
	}
	return l, err
}

// OnNode runs f on a thread of the node: sockets that f opens and programs that it
// starts are the node's.
func (r *Room) OnNode(f func() error) error { return r.node.do(f) }

// Close ends all processes and takes everything down. It may be called twice.
func (r *Room) Close() {
	if r.group != nil {
		r.group.close()
		r.group = nil
	}
	for _, l := range r.listeners {
		_ = l.Close() // nobody is left to tell
	}
	for _, n := range []**namespace{&r.node, &r.client, &r.pods} {
		if *n != nil {
			(*n).close()
			*n = nil
		}
	}
	r.listeners = nil
}
