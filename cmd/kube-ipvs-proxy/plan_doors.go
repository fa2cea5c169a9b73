package main

import (
	"context"
	"net/netip"

	vnetlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/netfilter"
)

// The doors below read the kernel, and note what they are asked to change.

type noteIPVS struct {
	ipvsutil.IPVS
	notes *notebook
}

// Do implements ipvsutil.IPVS.
func (d noteIPVS) Do(_ context.Context, ops []ipvsutil.Op) []error {
	var errs []error
	for i, op := range ops {
		note := operation{Verb: verbs[op.Verb], Kind: "virtual server", Object: "virtual server " + op.Server.Key.String() + " " + op.Server.Scheduler}
		switch op.Verb {
		case ipvsutil.CreateRealServer, ipvsutil.UpdateRealServer, ipvsutil.DeleteRealServer:
			note.Kind = "real server"
			note.Object = "real server " + op.Server.Key.String() + " -> " + op.Real.String()
		}
		if err := op.Check(); err != nil {
			note.Refused = err.Error()
			if errs == nil {
				errs = make([]error, len(ops))
			}
			errs[i] = &ipvsutil.OpError{Op: op.Verb.String(), Object: note.Object, Err: err}
		}
		d.notes.ops = append(d.notes.ops, note)
	}
	return errs
}

// verbs are the words for those of package ipvsutil.
var verbs = map[ipvsutil.Verb]string{
	ipvsutil.CreateVirtualServer: "create", ipvsutil.UpdateVirtualServer: "update", ipvsutil.DeleteVirtualServer: "delete",
	ipvsutil.CreateRealServer: "create", ipvsutil.UpdateRealServer: "update", ipvsutil.DeleteRealServer: "delete",
}

// noteSets notes of a set that is made anew only that it is.
type noteSets struct {
	ipsetutil.Sets
	notes *notebook
}

// Create implements ipsetutil.Sets.
func (d noteSets) Create(_ context.Context, set ipsetutil.Set) error {
	d.set("create", set.Name, " "+string(set.Type))
	return nil
}

func (d noteSets) set(verb, name, more string) {
	if name != ipsetutil.Spare {
		d.notes.add("set", verb, "set "+name+more)
	}
}

// Do implements ipsetutil.Sets.
func (d noteSets) Do(_ context.Context, changes []ipsetutil.Change) []error {
	for _, c := range changes {
		verb := "add"
		if c.Delete {
			verb = "delete"
		}
		if c.Member.Set != ipsetutil.Spare {
			d.notes.add("set entry", verb, "entry "+c.Member.String())
		}
	}
	return nil
}

// Swap implements ipsetutil.Sets.
func (d noteSets) Swap(_ context.Context, _, set string) error {
	d.set("replace", set, " by one made anew, with the same entries")
	return nil
}

// Destroy implements ipsetutil.Sets.
func (d noteSets) Destroy(_ context.Context, set string) error {
	d.set("destroy", set, "")
	return nil
}

type noteAddresses struct {
	ipvsutil.Addresses
	notes *notebook
}

// Ensure implements ipvsutil.Addresses.
func (d noteAddresses) Ensure(context.Context) error {
	device, err := lookDevice()
	if err != nil {
		return err
	}
	if !device.there {
		d.notes.add("device", "create", "device "+ipvsutil.Device)
	}
	for i, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := vnetlink.RuleList(family)
		if err != nil {
			continue // the host has no such family
		}
		found := false
		for _, r := range rules {
			found = found || r.Table == int(ipvsutil.DefaultCaptureRoutes.Table)
		}
		if !found {
			d.notes.add("policy rule", "add", [2]string{"IPv4", "IPv6"}[i]+" policy rule for captured addresses")
		}
	}
	return nil
}

func (d noteAddresses) all(kind, verb string, addrs []netip.Addr) []error {
	for _, a := range addrs {
		d.notes.add(kind, verb, a.String())
	}
	return nil
}

// Bind implements ipvsutil.Addresses.
func (d noteAddresses) Bind(_ context.Context, addrs []netip.Addr) []error {
	return d.all("address", "bind", addrs)
}

// Unbind implements ipvsutil.Addresses.
func (d noteAddresses) Unbind(_ context.Context, addrs []netip.Addr) []error {
	return d.all("address", "unbind", addrs)
}

// Leave implements ipvsutil.Addresses: the address is unbound once answers have come.
func (d noteAddresses) Leave(_ context.Context, addrs []netip.Addr) []error {
	return d.all("address", "unbind", addrs)
}

// Capture implements ipvsutil.Addresses.
func (d noteAddresses) Capture(_ context.Context, addrs []netip.Addr) []error {
	return d.all("route", "capture", addrs)
}

// Release implements ipvsutil.Addresses.
func (d noteAddresses) Release(_ context.Context, addrs []netip.Addr) []error {
	return d.all("route", "release", addrs)
}

type noteRules struct {
	flags netfilter.Flags
	notes *notebook
}

// Ensure implements reconcile.Rules.
func (d noteRules) Ensure(ctx context.Context) (bool, error) {
	found, err := netfilter.Inspect(ctx, d.flags)
	for _, line := range found.Found {
		d.notes.add("rules", "mend", "rules: "+line)
	}
	return len(found.Found) > 0, err
}

type noteOthers struct{ notes *notebook }

// Serving implements reconcile.Others: it changes the order alone.
func (noteOthers) Serving(context.Context) (bool, error) { return false, nil }

// Remove implements reconcile.Others.
func (d noteOthers) Remove(context.Context) (bool, error) {
	tables := netfilter.OtherTables()
	for _, table := range tables {
		d.notes.add("rules", "remove", "nftables table "+table)
	}
	return len(tables) > 0, nil
}

type noteFlows struct{ notes *notebook }

// DeleteFlows implements reconcile.Flows.
func (d noteFlows) DeleteFlows(_ context.Context, stale []ipvsutil.StaleFlow) (int, error) {
	for _, f := range stale {
		real := "any endpoint"
		if f.Real.IsValid() {
			real = f.Real.String()
		}
		d.notes.add("flow", "delete", "conntrack flows "+f.Frontend.String()+" -> "+real)
	}
	return 0, nil
}
