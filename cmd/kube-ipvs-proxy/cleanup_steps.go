package main

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"kube-ipvs-proxy/ipvsutil"
)

// step is one kind of object to remove.
type step struct {
	verb, kind string
	objects    []string
	notes      []string
	do         func(ctx context.Context) error
}

// steps removes all that is ours. Addresses go first: from then on packets take the
// way that they have without us. Rules stay until the last server is gone, so that
// none passes a server without its masquerade and filter; sets stay as long as rules
// name them, and the sets of our own names are the last sign that we were here.
func (c *cleaner) steps() []step {
	return []step{
		{notes: c.notes},
		c.release(), c.removeDevice(), c.unbind(),
		c.deleteServers(c.servers), c.deleteFlows(c.servers),
		c.withdraw(), c.removePolicyRules(),
		c.destroySets(c.setNames), c.releasePorts(),
	}
}

// handoverSteps leaves what kube-proxy's ipvs mode takes over. The rules go first, so
// that no packet is marked any more for a server or a route that goes next.
func (c *cleaner) handoverSteps() []step {
	marked := slices.DeleteFunc(slices.Clone(c.servers), func(s ipvsutil.VirtualServer) bool { return s.Key.Mark == 0 })
	own := slices.DeleteFunc(slices.Clone(c.setNames), func(name string) bool { return !strings.HasPrefix(name, ownSetPrefix) })
	return []step{
		{notes: c.notes},
		c.bindOnDevice(), c.withdraw(), c.deleteServers(marked),
		c.release(), c.removePolicyRules(), c.resizeSets(), c.destroySets(own), c.releasePorts(),
	}
}

func (c *cleaner) release() step {
	return step{verb: "release", kind: "captured addresses", objects: texts(c.captured), do: func(ctx context.Context) error {
		return gone(c.addresses.Release(ctx, c.captured))
	}}
}

// removeDevice removes the device with all its addresses at once: one by one, those of
// IPv6 take milliseconds each. One that is no dummy, or on which somebody put
// addresses of his own, stays.
func (c *cleaner) removeDevice() step {
	s := step{verb: "delete", kind: "device", do: c.removeOurDevice}
	switch d := c.device; {
	case !d.there:
	case d.kind != "dummy":
		s.notes = []string{ipvsutil.Device + " stays: it is of kind " + d.kind + ", which this proxy never makes"}
	case len(d.foreign) > 0:
		s.notes = []string{ipvsutil.Device + " stays: others put " + strings.Join(d.foreign, ", ") + " on it"}
	default:
		s.objects = []string{ipvsutil.Device}
		if len(d.addrs) > 0 {
			s.objects[0] += " with " + strings.Join(texts(d.addrs), ", ")
		}
	}
	return s
}

func (c *cleaner) removeOurDevice(ctx context.Context) error { return c.addresses.RemoveDevice(ctx) }

// unbind unbinds what does not go with the device.
func (c *cleaner) unbind() step {
	left := c.bound
	if c.removeDevice().objects != nil {
		left = without(c.bound, c.device.addrs)
	}
	return step{verb: "unbind", kind: "bound addresses", objects: texts(left), do: func(ctx context.Context) error {
		// An address can be bound both ways at once.
		return errors.Join(gone(c.addresses.Unbind(ctx, left)), gone(c.routes.Unbind(ctx, left)))
	}}
}

// bindOnDevice turns addresses that are bound by a route, or captured, into such on the
// device, which is the only way that kube-proxy has. Those that another device has stay
// with that, as there.
func (c *cleaner) bindOnDevice() step {
	byRoute := without(c.bound, c.device.addrs)
	captured := without(without(c.captured, c.bound), c.elsewhere)
	both := slices.Concat(byRoute, captured)
	return step{verb: "bind to " + ipvsutil.Device, kind: "addresses bound by route or captured", objects: texts(both), do: func(ctx context.Context) error {
		if err := c.addresses.Ensure(ctx); err != nil {
			return err
		}
		for _, err := range c.addresses.Bind(ctx, both) {
			if err != nil && !errors.Is(err, fs.ErrExist) {
				return err
			}
		}
		return gone(c.routes.Unbind(ctx, byRoute))
	}}
}

// deleteFlows forgets the flows to servers that are gone. Clients that go on sending
// would keep them for ever, past all rules that come after us.
func (c *cleaner) deleteFlows(servers []ipvsutil.VirtualServer) step {
	var flows []ipvsutil.StaleFlow
	s := step{verb: "delete", kind: "conntrack flows of frontends"}
	for _, server := range servers {
		if server.Key.Mark == 0 && c.rules != nil {
			flows = append(flows, ipvsutil.StaleFlow{Frontend: server.Key})
			s.objects = append(s.objects, "conntrack flows to "+server.Key.String())
		}
	}
	s.do = func(ctx context.Context) error {
		_, err := c.rules.DeleteFlows(ctx, flows)
		return err
	}
	return s
}

func (c *cleaner) deleteServers(servers []ipvsutil.VirtualServer) step {
	s := step{verb: "delete", kind: "virtual servers"}
	ops := make([]ipvsutil.Op, len(servers))
	for i, server := range servers {
		ops[i] = ipvsutil.Op{Verb: ipvsutil.DeleteVirtualServer, Server: server}
		s.objects = append(s.objects, "virtual server "+server.Key.String())
	}
	s.do = func(ctx context.Context) error { return gone(c.ipvs.Do(ctx, ops)) }
	return s
}

func (c *cleaner) withdraw() step {
	s := step{verb: "remove", kind: "rules", do: func(ctx context.Context) error { return c.rules.Withdraw(ctx, c.withdrawal) }}
	for _, chain := range c.withdrawal.Removed {
		s.objects = append(s.objects, "chain "+chain)
	}
	for _, chain := range c.withdrawal.Rewritten {
		s.objects = append(s.objects, "our own rules from chain "+chain)
	}
	for _, chain := range c.withdrawal.Kept {
		s.notes = append(s.notes, "chain "+chain)
	}
	return s
}

func (c *cleaner) removePolicyRules() step {
	return step{verb: "delete", kind: "policy rules", objects: c.policyRules, do: c.addresses.RemoveRules}
}

// destroySets destroys sets, those of our own names last. One that a rule of others
// names stays, and does not keep the rest.
func (c *cleaner) destroySets(names []string) step {
	names = slices.Clone(names)
	slices.SortStableFunc(names, func(a, b string) int {
		return boolOrder(strings.HasPrefix(a, ownSetPrefix)) - boolOrder(strings.HasPrefix(b, ownSetPrefix))
	})
	s := step{verb: "destroy", kind: "sets", do: func(ctx context.Context) error {
		var errs []error
		for _, name := range names {
			errs = append(errs, c.sets.Destroy(ctx, name))
		}
		return errors.Join(errs...)
	}}
	for _, name := range names {
		s.objects = append(s.objects, "set "+name)
	}
	return s
}

// releasePorts takes NodePorts out of the ports that the node leaves out of its own
// connections. The set that remembers them goes with them, after them.
func (c *cleaner) releasePorts() step {
	s := step{verb: "release", kind: "reserved ports", do: func(ctx context.Context) error { return c.reserved.Release(ctx) }}
	for _, port := range c.reservedPorts {
		s.objects = append(s.objects, "reserved port "+strconv.Itoa(int(port)))
	}
	return s
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// gone joins the errors of a removal; what is gone already is none.
func gone(errs []error) error {
	var bad []error
	for _, err := range errs {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			bad = append(bad, err)
		}
	}
	return errors.Join(bad...)
}

func without(addrs, minus []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addrs), func(a netip.Addr) bool { return slices.Contains(minus, a) })
}

func texts(addrs []netip.Addr) []string {
	list := make([]string, len(addrs))
	for i, a := range addrs {
		list[i] = a.String()
	}
	return list
}
