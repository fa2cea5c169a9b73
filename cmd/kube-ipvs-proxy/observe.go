package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"

	vnetlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	ipsetkernel "kube-ipvs-proxy/ipsetutil/kernel"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/explain"
	"kube-ipvs-proxy/proxier/host"
	"kube-ipvs-proxy/proxier/netfilter"
	"kube-ipvs-proxy/proxier/reconcile"
)

// observe reads the kernel, part by part. A part that cannot be read is noted, and the
// others are read all the same. Nothing is written, and one process a family started.
func (s *scene) observe(ctx context.Context) (explain.Observed, netfilter.Inspection) {
	o := s.observeQuietly(ctx)
	rules, err := netfilter.Inspect(ctx, s.flags)
	o.RuleProblems = rules.Found
	if err != nil {
		o.Unknown[explain.Rules] = err
	}
	return o, rules
}

// observeQuietly is observe without the rules, for which programs have to be started.
func (s *scene) observeQuietly(ctx context.Context) explain.Observed {
	o := explain.Observed{IPv6: hostHasIPv6(), Unknown: map[explain.Part]error{}}
	for _, part := range []struct {
		name explain.Part
		read func() error
	}{
		{explain.Bound, func() error { return s.observeBound(&o) }},
		{explain.Captured, func() error { return s.observeCaptured(&o) }},
		{explain.Sets, func() error { return observeSets(ctx, &o) }},
		{explain.Servers, func() error { return s.observeServers(ctx, &o) }},
		{explain.Settings, func() error { return s.observeSettings(&o) }},
	} {
		if err := part.read(); err != nil {
			o.Unknown[part.name] = err
		}
	}
	o.Owns = reconcile.NewOwnership(o.Members, keys(o.Bound), keys(o.Captured)).Owns
	return o
}

func keys(set map[netip.Addr]bool) []netip.Addr {
	list := make([]netip.Addr, 0, len(set))
	for a := range set {
		list = append(list, a)
	}
	return list
}

// observeBound reads kube-ipvs0, and the local routes that bind in its stead.
func (s *scene) observeBound(o *explain.Observed) error {
	d, err := lookDevice()
	if err != nil {
		return err
	}
	o.Device, o.Bound, o.Leaving = d.there, map[netip.Addr]bool{}, map[netip.Addr]bool{}
	for _, a := range d.addrs {
		o.Bound[a] = true
	}
	byRoute, err := localRoutes(unix.RT_TABLE_LOCAL)
	for _, a := range byRoute {
		o.Leaving[a] = o.Bound[a] // both ways: see ipvsutil.Addresses.Leave
		o.Bound[a] = true
	}
	o.TalkedFrom = talkedFrom()
	return err
}

// talkedFrom are the own addresses of connected sockets. A family that cannot be listed
// has none: then an address that waits for them is told as a difference.
func talkedFrom() map[netip.Addr]bool {
	found := map[netip.Addr]bool{}
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		sockets, _ := vnetlink.SocketDiagTCP(family)
		for _, s := range sockets {
			if a, ok := netip.AddrFromSlice(s.ID.Source); ok && s.State != vnetlink.TCP_LISTEN && s.State != vnetlink.TCP_TIME_WAIT {
				found[a.Unmap()] = true
			}
		}
		sockets, _ = vnetlink.SocketDiagUDP(family)
		for _, s := range sockets {
			if a, ok := netip.AddrFromSlice(s.ID.Source); ok && s.State == vnetlink.TCP_ESTABLISHED {
				found[a.Unmap()] = true
			}
		}
	}
	return found
}

// observeCaptured reads the capture table and the rules that lead to it.
func (s *scene) observeCaptured(o *explain.Observed) error {
	table := int(ipvsutil.DefaultCaptureRoutes.Table)
	captured, err := localRoutes(table)
	if err != nil {
		return err
	}
	o.Captured = map[netip.Addr]bool{}
	for _, a := range captured {
		o.Captured[a] = true
	}
	for i, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := vnetlink.RuleList(family)
		if err != nil && family == unix.AF_INET {
			return fmt.Errorf("list policy rules: %w", err)
		}
		for _, r := range rules {
			if r.Table == table && r.Mark == s.marks.Capture && r.Mask != nil && *r.Mask == s.marks.Capture {
				o.PolicyRules[i] = true
			}
		}
	}
	return nil
}

// localRoutes lists the full-length local routes of a table that have our protocol number.
func localRoutes(table int) ([]netip.Addr, error) {
	var addrs []netip.Addr
	filter := &vnetlink.Route{Table: table, Protocol: vnetlink.RouteProtocol(ipvsutil.DefaultCaptureRoutes.Protocol), Type: unix.RTN_LOCAL}
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		routes, err := vnetlink.RouteListFiltered(family, filter, vnetlink.RT_FILTER_TABLE|vnetlink.RT_FILTER_PROTOCOL|vnetlink.RT_FILTER_TYPE)
		missing := errors.Is(err, unix.ENOENT) || family == unix.AF_INET6 && errors.Is(err, unix.EAFNOSUPPORT)
		if err != nil && !missing {
			return nil, fmt.Errorf("list routes of table %d: %w", table, err)
		}
		for _, r := range routes {
			if r.Dst == nil {
				continue
			}
			if addr, ok := netip.AddrFromSlice(r.Dst.IP); ok {
				addrs = append(addrs, addr.Unmap())
			}
		}
	}
	return addrs, nil
}

// observeSets lists our sets.
func observeSets(ctx context.Context, o *explain.Observed) error {
	sets, err := ipsetkernel.Open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = sets.Close() }()
	headers, err := sets.Headers(ctx)
	if err != nil {
		return err
	}
	o.Members, o.Mismatched = map[string]map[ipsetutil.Entry]uint32{}, map[string]string{}
	for _, set := range ipsetutil.All() {
		header, there := headers[set.Name]
		switch {
		case !there:
			continue
		case !header.Serves(set):
			o.Mismatched[set.Name] = describeSet(header.Set)
		}
		if header.Set.Type == set.Type {
			if o.Members[set.Name], err = sets.Members(ctx, set.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

func describeSet(s ipsetutil.Set) string {
	text := string(s.Type)
	if s.Family != ipsetutil.FamilyNone {
		text += fmt.Sprintf(" family %s maxelem %d", s.Family, s.MaxElem)
	}
	return text
}

// observeServers lists IPVS.
func (s *scene) observeServers(ctx context.Context, o *explain.Observed) error {
	e, err := s.eyes()
	if err != nil {
		return err
	}
	list, err := e.look(ctx)
	if err != nil {
		return err
	}
	e.close()
	o.Servers = make(map[ipvsutil.Key]explain.Server, len(list))
	for _, s := range list {
		server := s.server()
		o.Servers[server.Key] = server
	}
	return nil
}

// observeSettings reads the kernel settings that run sets or asks for.
func (s *scene) observeSettings(o *explain.Observed) error {
	settings, module, err := wantedSysctls(s.options, o.IPv6, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	needed := len(host.Sysctls(host.SysctlOptions{IPv6: o.IPv6, StrictARP: s.options.StrictARP}))
	s.addSettings(o, host.ProcSys, settings[:needed], false)
	s.addSettings(o, host.ProcSys, settings[needed:], true)
	s.addSettings(o, host.Sys, module, true)
	return nil
}

func (s *scene) addSettings(o *explain.Observed, root string, want []host.Sysctl, advice bool) {
	for _, p := range host.CheckSysctls(root, want) {
		o.Settings = append(o.Settings, explain.Setting{
			Name: strings.ReplaceAll(p.Key, "/", "."), Want: p.Want, Have: p.Have, Breaks: p.Breaks, Advice: advice,
		})
	}
}
