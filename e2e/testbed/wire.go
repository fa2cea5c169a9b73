package testbed

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The devices and routes of a host.

// up sets a device up.
func (h *Host) up(device string) error {
	link, err := h.nl.LinkByName(device)
	if err != nil {
		return fmt.Errorf("%s: device %s: %w", h.Name(), device, err)
	}
	if err := h.nl.LinkSetUp(link); err != nil {
		return fmt.Errorf("%s: device %s up: %w", h.Name(), device, err)
	}
	return nil
}

// addBridge makes a bridge that is up.
func (h *Host) addBridge(name string) error {
	if err := h.nl.LinkAdd(&netlink.Bridge{LinkAttrs: linkAttrs(name)}); err != nil {
		return fmt.Errorf("%s: bridge %s: %w", h.Name(), name, err)
	}
	return errors.Join(h.routeOnly(), h.up(name))
}

// routeOnly keeps bridges to bridging where br_netfilter is loaded: with it iptables would
// rewrite packets before they are routed, and a bridge sends none back to its port.
func (h *Host) routeOnly() error {
	for _, name := range []string{"net/bridge/bridge-nf-call-iptables", "net/bridge/bridge-nf-call-ip6tables"} {
		if _, err := h.Sysctl(name); err == nil {
			if err := h.SetSysctl(name, "0"); err != nil {
				return err
			}
		}
	}
	return nil
}

// plug connects the host's eth0 with a new port of a bridge on another host.
func (h *Host) plug(other *Host, bridge, port string) error {
	veth := &netlink.Veth{
		LinkAttrs:     linkAttrs(port),
		PeerName:      "eth0",
		PeerNamespace: netlink.NsFd(int(h.ns.fd.Fd())),
	}
	if err := other.nl.LinkAdd(veth); err != nil {
		return fmt.Errorf("%s: device %s: %w", other.Name(), port, err)
	}
	link, err := other.nl.LinkByName(port)
	if err != nil {
		return fmt.Errorf("%s: device %s: %w", other.Name(), port, err)
	}
	master, err := other.nl.LinkByName(bridge)
	if err != nil {
		return fmt.Errorf("%s: bridge %s: %w", other.Name(), bridge, err)
	}
	if err := other.nl.LinkSetMaster(link, master); err != nil {
		return fmt.Errorf("%s: port %s: %w", other.Name(), port, err)
	}
	if err := other.up(port); err != nil {
		return err
	}
	return h.up("eth0")
}

// AddAddr adds an address to a device of the host, usable at once.
func (h *Host) AddAddr(device string, addr netip.Addr, bits int) error {
	return h.changeAddr(device, addr, bits, h.nl.AddrAdd)
}

// RemoveAddr takes an address away again.
func (h *Host) RemoveAddr(device string, addr netip.Addr, bits int) error {
	return h.changeAddr(device, addr, bits, h.nl.AddrDel)
}

func (h *Host) changeAddr(device string, addr netip.Addr, bits int, change func(netlink.Link, *netlink.Addr) error) error {
	link, err := h.nl.LinkByName(device)
	if err != nil {
		return fmt.Errorf("%s: device %s: %w", h.Name(), device, err)
	}
	a := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(addr, bits))}
	if addr.Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	if err := change(link, a); err != nil {
		return fmt.Errorf("%s: address %v on %s: %w", h.Name(), addr, device, err)
	}
	return nil
}

// Route sends a range by way of a neighbour on a device; an invalid via means
// that the range is on the device itself. An earlier route to it is replaced.
func (h *Host) Route(to netip.Prefix, device string, via netip.Addr) error {
	link, err := h.nl.LinkByName(device)
	if err != nil {
		return fmt.Errorf("%s: device %s: %w", h.Name(), device, err)
	}
	r := &netlink.Route{LinkIndex: link.Attrs().Index, Dst: ipNet(to)}
	if via.IsValid() {
		r.Gw = via.AsSlice()
	} else {
		r.Scope = netlink.SCOPE_LINK
	}
	if err := h.nl.RouteReplace(r); err != nil {
		return fmt.Errorf("%s: route %v via %v on %s: %w", h.Name(), to, via, device, err)
	}
	return nil
}

// OwnRange makes every address of a range the host's own, as if it had them all.
func (h *Host) OwnRange(p netip.Prefix) error {
	lo, err := h.nl.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("%s: device lo: %w", h.Name(), err)
	}
	r := &netlink.Route{LinkIndex: lo.Attrs().Index, Dst: ipNet(p), Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST}
	if err := h.nl.RouteReplace(r); err != nil {
		return fmt.Errorf("%s: own range %v: %w", h.Name(), p, err)
	}
	return nil
}

// swallow drops what the host has no other route for, without an answer.
func (h *Host) swallow(f Family) error {
	r := &netlink.Route{Dst: ipNet(everywhere(f)), Type: unix.RTN_BLACKHOLE}
	if err := h.nl.RouteReplace(r); err != nil {
		return fmt.Errorf("%s: swallow %v: %w", h.Name(), f, err)
	}
	return nil
}

// everywhere is the prefix of the default route.
func everywhere(f Family) netip.Prefix {
	if f == IPv4 {
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
}

// alone is the prefix that holds one address.
func alone(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()) }

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func linkAttrs(name string) netlink.LinkAttrs {
	a := netlink.NewLinkAttrs()
	a.Name = name
	return a
}
