package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	vnetlink "github.com/vishvananda/netlink"

	"kube-ipvs-proxy/ipsetutil"
	ipsetkernel "kube-ipvs-proxy/ipsetutil/kernel"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/kernel"
	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/host"
	"kube-ipvs-proxy/proxier/netfilter"
	"kube-ipvs-proxy/proxier/reconcile"
	"kube-ipvs-proxy/proxier/reserve"
)

// cleaner holds the doors, and what of ours they lead to. A part of the kernel that is
// not there has no door, and holds nothing of ours.
type cleaner struct {
	ipvs      *kernel.IPVS
	sets      *ipsetkernel.Conn
	addresses *kernel.Addresses
	routes    *kernel.Addresses // the same, but binds by route
	rules     *netfilter.Rules
	notes     []string

	setNames        []string
	resized         []resized
	bound, captured []netip.Addr
	elsewhere       []netip.Addr // what the host's own devices have
	device          device
	servers         []ipvsutil.VirtualServer
	withdrawal      netfilter.Withdrawal
	policyRules     []string
	reserved        *reserve.Ports // nil where no set can remember them
	reservedPorts   []uint16
}

// device is kube-ipvs0 as it is.
type device struct {
	there   bool
	kind    string
	addrs   []netip.Addr // that Services have
	foreign []string     // others, which somebody put there
}

func openCleaner(ctx context.Context, options config.Options) (*cleaner, error) {
	marks, err := netfilter.NewMarks(int(options.MasqueradeBit))
	if err != nil {
		return nil, err
	}
	c := &cleaner{}
	mixed, err := guessBackend(ctx, &options)
	if err != nil {
		return nil, err
	}
	if mixed != nil {
		c.note(mixed.Error())
	}
	if c.ipvs, err = kernel.Open(ctx); errors.Is(err, ipvsutil.ErrNoIPVS) {
		c.note("the kernel has no IPVS: no virtual server is here")
	} else if err != nil {
		return nil, fmt.Errorf("%w (cleanup needs root)", err)
	}
	if c.sets, err = ipsetkernel.Open(ctx); errors.Is(err, ipsetutil.ErrNoIPSet) {
		c.note("the kernel has no ipset: no set is here")
	} else if err != nil {
		c.close()
		return nil, err
	}
	routes := ipvsutil.DefaultCaptureRoutes
	routes.Mark = marks.Capture
	if c.addresses, err = kernel.OpenAddresses(ctx, routes); err == nil {
		c.routes, err = kernel.OpenAddresses(ctx, routes)
	}
	if err != nil {
		c.close()
		return nil, err
	}
	c.routes.BindByRoute()
	if c.rules, err = netfilter.New(ctx, flags(options, marks)); errors.Is(err, netfilter.ErrNoIPTables) {
		c.note(fmt.Sprintf("rules are not looked at: %v", err))
	} else if err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *cleaner) note(text string) { c.notes = append(c.notes, text) }

func (c *cleaner) close() {
	if c.ipvs != nil {
		_ = c.ipvs.Close()
	}
	if c.sets != nil {
		_ = c.sets.Close()
	}
	for _, a := range []*kernel.Addresses{c.addresses, c.routes} {
		if a != nil {
			_ = a.Close()
		}
	}
}

// look finds all that is ours, before anything is removed: afterwards less would tell.
func (c *cleaner) look(ctx context.Context, leave netfilter.Leave) error {
	members, err := c.lookSets(ctx)
	if err != nil {
		return err
	}
	if c.bound, err = c.addresses.Bound(ctx); err != nil {
		return err
	}
	if c.captured, err = c.addresses.Captured(ctx); err != nil {
		return err
	}
	if c.device, err = lookDevice(); err != nil {
		return err
	}
	if c.elsewhere, err = addressesElsewhere(); err != nil {
		return err
	}
	if c.sets != nil {
		c.reserved = reserve.New(host.SettableRoot(), c.sets)
		if c.reservedPorts, err = c.reserved.Ours(ctx); err != nil {
			return err
		}
	}
	if c.ipvs != nil {
		owner := reconcile.NewOwnership(members, c.bound, c.captured)
		servers, err := c.ipvs.VirtualServers(ctx)
		if err != nil {
			return err
		}
		c.servers = slices.DeleteFunc(servers, func(s ipvsutil.VirtualServer) bool { return !owner.Owns(s.Key) })
	}
	if c.rules != nil {
		if c.withdrawal, err = c.rules.PlanWithdrawal(ctx, leave); err != nil {
			return err
		}
	}
	c.policyRules, err = c.addresses.Rules(ctx)
	if err == nil && !c.present() {
		c.leaveKubeProxy()
	}
	return err
}

// lookSets lists our sets and their members.
func (c *cleaner) lookSets(ctx context.Context) (map[string]map[ipsetutil.Entry]uint32, error) {
	members := map[string]map[ipsetutil.Entry]uint32{}
	if c.sets == nil {
		return members, nil
	}
	headers, err := c.sets.Headers(ctx)
	if err != nil {
		return nil, err
	}
	for _, set := range ipsetutil.All() {
		header, there := headers[set.Name]
		if !there {
			continue
		}
		if header.Set.Type != set.Type {
			c.note(fmt.Sprintf("set %s stays: it is a %s, which this proxy never makes", set.Name, header.Set.Type))
			continue
		}
		c.setNames = append(c.setNames, set.Name)
		if members[set.Name], err = c.sets.Members(ctx, set.Name); err != nil {
			return nil, err
		}
		if header.Set.MaxElem != set.MaxElem {
			c.resized = append(c.resized, resized{set: set, members: members[set.Name]})
		}
	}
	if _, left := headers[ipsetutil.Spare]; left {
		c.setNames = append(c.setNames, ipsetutil.Spare)
	}
	return members, nil
}

// present tells whether this proxy has left anything that only it makes. Sets of our
// own names go last, so that a cleanup that was interrupted is known.
func (c *cleaner) present() bool {
	own := func(name string) bool { return strings.HasPrefix(name, ownSetPrefix) }
	return slices.ContainsFunc(c.setNames, own) || len(c.captured) > 0 || len(c.policyRules) > 0 ||
		slices.ContainsFunc(c.withdrawal.Removed, func(chain string) bool { return strings.Contains(chain, " "+ownSetPrefix) })
}

// ownSetPrefix begins the names of sets and chains that kube-proxy does not have.
const ownSetPrefix = "KIPVS-"

// leaveKubeProxy forgets what carries kube-proxy's names, where nothing is there that
// this proxy alone has: then kube-proxy made it.
func (c *cleaner) leaveKubeProxy() {
	if len(c.setNames) > 0 || c.device.there || len(c.withdrawal.Removed) > 0 {
		c.note("kube-proxy has its rules, sets or kube-ipvs0 here; they stay (kube-proxy --cleanup removes them)")
	}
	c.setNames, c.bound, c.servers, c.device, c.withdrawal = nil, nil, nil, device{}, netfilter.Withdrawal{}
}

// lookDevice reads kube-ipvs0.
func lookDevice() (device, error) {
	link, err := vnetlink.LinkByName(ipvsutil.Device)
	if errors.As(err, new(vnetlink.LinkNotFoundError)) {
		return device{}, nil
	}
	if err != nil {
		return device{}, fmt.Errorf("look up %s: %w", ipvsutil.Device, err)
	}
	d := device{there: true, kind: link.Type()}
	list, err := addressesOf(link)
	if err != nil {
		return device{}, err
	}
	seen := map[netip.Addr]bool{}
	for _, a := range list {
		addr, ok := netip.AddrFromSlice(a.IP)
		addr = addr.Unmap()
		ones, bits := a.Mask.Size()
		switch {
		case ok && addr.Is6() && addr.IsLinkLocalUnicast():
		case ok && ones == bits && ipvsutil.CheckAddress(addr) == nil:
			seen[addr] = true
		default:
			d.foreign = append(d.foreign, a.IPNet.String())
		}
	}
	d.addrs = slices.SortedFunc(maps.Keys(seen), netip.Addr.Compare)
	return d, nil
}

// addressesElsewhere lists what the other devices of the host have.
func addressesElsewhere() ([]netip.Addr, error) {
	links, err := vnetlink.LinkList()
	if err != nil && !errors.Is(err, vnetlink.ErrDumpInterrupted) {
		return nil, fmt.Errorf("list devices: %w", err)
	}
	var all []netip.Addr
	for _, link := range links {
		if link.Attrs().Name == ipvsutil.Device {
			continue
		}
		list, err := addressesOf(link)
		if err != nil {
			return nil, err
		}
		for _, a := range list {
			if addr, ok := netip.AddrFromSlice(a.IP); ok {
				all = append(all, addr.Unmap())
			}
		}
	}
	return all, nil
}

// addressesOf lists the addresses of a device, again when a change disturbs it.
func addressesOf(link vnetlink.Link) (list []vnetlink.Addr, err error) {
	for range 5 {
		list, err = vnetlink.AddrList(link, vnetlink.FAMILY_ALL)
		if !errors.Is(err, vnetlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("list the addresses of %s: %w", link.Attrs().Name, err)
	}
	return list, nil
}
