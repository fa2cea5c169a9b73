package main

import (
	"context"
	"log/slog"
	"math/bits"
	"net/netip"
	"slices"
	"time"

	ipsetkernel "kube-ipvs-proxy/ipsetutil/kernel"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/kernel"
	"kube-ipvs-proxy/proxier"
	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/health"
	"kube-ipvs-proxy/proxier/host"
	"kube-ipvs-proxy/proxier/netfilter"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/reconcile"
	"kube-ipvs-proxy/proxier/reserve"
)

// drainCheck is the time between two looks at a real server that drains.
const drainCheck = 2 * time.Second

// agent is the loop with all that must be closed after it.
type agent struct {
	proxier *proxier.Proxier
	source  *source
	monitor *monitor
	// hasScheduler asks the kernel; nil where doors do not.
	hasScheduler func(name string) bool
	// reserve keeps NodePorts out of the node's own connections; nil: nothing does.
	reserve func(ctx context.Context, ports map[uint16]bool) (changed bool, err error)
	closers []func() error
	// options and rules belong to the loop once it runs; see adopt. Rules is nil
	// where others than netfilter's are.
	options config.Options
	marks   netfilter.Marks
	rules   *netfilter.Rules
	// features are the host's; zero: those of any host that is not too old.
	features netfilter.Features
}

func (a *agent) close() {
	for _, c := range slices.Backward(a.closers) {
		_ = c() // the process ends
	}
}

// build opens the doors into the kernel, the source and the host, and wires the loop.
func build(ctx context.Context, options config.Options, features netfilter.Features, log *slog.Logger) (*agent, error) {
	return buildOn(ctx, options, log, openSource, func(a *agent, ctx context.Context, o config.Options, m netfilter.Marks) (reconcile.Doors, error) {
		a.features = features
		return a.doors(ctx, o, m)
	})
}

// openDoors opens the ways into the kernel, and notes what has to be closed.
type openDoors func(a *agent, ctx context.Context, options config.Options, marks netfilter.Marks) (reconcile.Doors, error)

// opensSource begins to read the Services.
type opensSource func(ctx context.Context, options config.Options, log *slog.Logger) (*source, error)

// buildOn is build with another source, or other doors than those that write.
func buildOn(ctx context.Context, options config.Options, log *slog.Logger, read opensSource, open openDoors) (*agent, error) {
	a := &agent{}
	marks, err := netfilter.NewMarks(int(options.MasqueradeBit))
	if err != nil {
		return nil, err
	}
	nodePorts, err := host.ParseNodePortSelectors(options.NodePorts)
	if err != nil {
		return nil, exitError{2, err}
	}
	if a.source, err = read(ctx, options, log); err != nil {
		return nil, err
	}
	if options.LocalMode == config.NodeCIDR {
		if options.ClusterCIDRs, err = a.source.waitPodCIDRs(ctx); err != nil {
			return nil, err
		}
	}
	doors, err := open(a, ctx, options, marks)
	if err != nil {
		a.close()
		return nil, err
	}
	a.options, a.marks = options, marks
	a.rules, _ = doors.Rules.(*netfilter.Rules)
	node, err := openHost(ctx, a)
	if err != nil {
		a.close()
		return nil, err
	}
	var rulesChanged <-chan struct{}
	if a.rules != nil {
		tellOfRules(log, a.rules)
		if rulesChanged, err = a.rules.Watch(ctx); err != nil {
			log.Warn("changes of rules by others are found late", "err", err)
		}
	}
	a.monitor = newMonitor(options, a.source, log)
	a.proxier = proxier.New(proxier.Config{
		NodeName:      options.NodeName,
		Plan:          planConfig(options, nodePorts, a.hasScheduler, a.source.servers),
		MinSyncPeriod: options.MinSyncPeriod,
		MarkBase:      marks.Capture,
		MarkBits:      uint8(bits.OnesCount32(marks.Index)),
		Reconcile:     reconcileConfig(options),
		RulesChanged:  rulesChanged,
		Begin:         a.monitor.Begin,
		End:           a.monitor.ended,
		Events:        a.source.events,
		PodCIDRs:      a.followPodCIDRs(log),
		Loopback:      a.monitor.loopback.setPorts,
		Reserve:       a.reserve,
	}, a.monitor.relay(ctx), node, a.monitor.pickAddresses(nodePorts), doors, log)
	a.monitor.proxier = a.proxier
	return a, nil
}

// planConfig are the choices for all Services; servers are addresses of the API server.
func planConfig(options config.Options, nodePorts host.NodePortSelectors, hasScheduler func(string) bool, servers []netip.AddrPort) plan.Config {
	return plan.Config{
		Reserved:     servers,
		HasScheduler: hasScheduler,
		Scheduler:    options.Scheduler, BindExternal: options.BindExternal,
		NoExternalIPs: options.NoExternalIPs, AllowExternal: options.AllowExternalCIDRs,
		LoopbackNodePorts: nodePorts.Loopback(), NoIPv6: !hostHasIPv6(),
	}
}

// reconcileConfig are the times of the reconciler, where zero means its default.
func reconcileConfig(options config.Options) reconcile.Config {
	c := reconcile.Config{
		DrainTimeout: options.DrainTimeout, DrainCheck: drainCheck,
		SyncPeriod: options.SyncPeriod, RefreshPeriod: options.RefreshPeriod,
		ListBound: options.BindByRoute, // of which no event tells
	}
	if c.RefreshPeriod == 0 {
		c.RefreshPeriod = -1 // never
	}
	return c
}

// withBindAddress puts the configured primary address of the node, if there is one,
// in the place of its Node's address of that family.
func withBindAddress(nodeIPs []netip.Addr, bind netip.Addr) []netip.Addr {
	if !bind.IsValid() {
		return nodeIPs
	}
	ips := []netip.Addr{bind}
	for _, ip := range nodeIPs {
		if ip.Is6() != bind.Is6() {
			ips = append(ips, ip)
		}
	}
	return ips
}

// doors opens the ways into the kernel.
func (a *agent) doors(ctx context.Context, options config.Options, marks netfilter.Marks) (reconcile.Doors, error) {
	ipvs, err := kernel.Open(ctx)
	if err != nil {
		return reconcile.Doors{}, err
	}
	a.closers = append(a.closers, ipvs.Close)
	a.hasScheduler = askOnce(ctx, ipvs)
	sets, err := ipsetkernel.Open(ctx)
	if err != nil {
		return reconcile.Doors{}, err
	}
	a.closers = append(a.closers, sets.Close)
	a.reserve = reserve.New(host.SettableRoot(), sets).Reserve
	routes := ipvsutil.DefaultCaptureRoutes
	routes.Mark = marks.Capture
	addresses, err := kernel.OpenAddresses(ctx, routes)
	if err != nil {
		return reconcile.Doors{}, err
	}
	a.closers = append(a.closers, addresses.Close)
	if options.BindByRoute {
		addresses.BindByRoute()
	}
	rules, err := netfilter.New(ctx, a.flags(options, marks))
	if err != nil {
		return reconcile.Doors{}, err
	}
	return reconcile.Doors{IPVS: ipvs, Sets: sets, Addresses: addresses, Rules: rules, Flows: countedFlows{rules, a.tellFlows}, Others: rules.Others()}, nil
}

// tellFlows tells the metrics of stale flows that were removed.
func (a *agent) tellFlows(f health.Family, took time.Duration, deleted int) {
	if a.monitor != nil {
		a.monitor.StaleFlows(f, took, deleted)
	}
}

// askOnce asks the kernel once for each scheduler. When it does not answer, the
// scheduler is taken to be there.
func askOnce(ctx context.Context, ipvs *kernel.IPVS) func(name string) bool {
	known := map[string]bool{}
	return func(name string) bool {
		has, asked := known[name]
		if !asked {
			var err error
			has, err = ipvs.HasScheduler(ctx, name)
			if err != nil {
				return true
			}
			known[name] = has
		}
		return has
	}
}

// flags are flags with the features of the host.
func (a *agent) flags(options config.Options, marks netfilter.Marks) netfilter.Flags {
	f := flags(options, marks)
	if a.features.Version != "" {
		f.RandomFully, f.IPVSMatch = a.features.RandomFully, a.features.IPVSMatch
	}
	return f
}

// flags are the choices that the static rules depend on.
func flags(options config.Options, marks netfilter.Marks) netfilter.Flags {
	f := netfilter.DefaultFlags()
	f.Backend = netfilter.Backend(options.IPTablesBackend)
	f.Marks = marks
	f.IPv6 = hostHasIPv6()
	f.MasqueradeAll = options.MasqueradeAll
	f.AcceptInput = options.AcceptInput
	f.TCPBeLiberal = options.TCPBeLiberal
	f.MasqueradePorts = netfilter.PortRange{From: options.MasqueradePorts[0], To: options.MasqueradePorts[1]}
	f.Detector = detector(options)
	return f
}

func detector(options config.Options) netfilter.Detector {
	switch options.LocalMode {
	case config.BridgeInterface:
		return netfilter.Detector{Mode: netfilter.DetectBridge, Interface: options.Interface}
	case config.InterfaceNamePrefix:
		return netfilter.Detector{Mode: netfilter.DetectInterfacePrefix, Interface: options.Interface}
	}
	d := netfilter.Detector{}
	for _, cidr := range options.ClusterCIDRs {
		d.Mode = netfilter.DetectCIDR
		if cidr.Addr().Is6() {
			d.IPv6 = cidr
		} else {
			d.IPv4 = cidr
		}
	}
	return d
}
