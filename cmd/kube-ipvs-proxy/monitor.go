package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"kube-ipvs-proxy/proxier"
	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/health"
	"kube-ipvs-proxy/proxier/host"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/watch"
)

// monitor hands what the loop did to the health endpoints, the health-check ports
// of Services and the metrics.
type monitor struct {
	*health.Monitor
	checks *health.Checks
	// loopback serves NodePorts on loopback addresses.
	loopback *loopbackPorts
	source   *source
	proxier  *proxier.Proxier // set once the loop is built
	teller   *teller
	options  config.Options
	log      *slog.Logger
	// owned is when the metrics of traffic last learned whose the servers are.
	owned  time.Time
	memory *thrift
	heard  heard
	// triggers are the causes of changes that are not in the kernel yet; the loop's.
	triggers []watch.Trigger
	traffic  *traffic // nil: not asked for
}

func newMonitor(options config.Options, source *source, log *slog.Logger) *monitor {
	m := &monitor{
		Monitor: health.New(health.Config{
			Timeout: 2 * options.SyncPeriod,
			Build:   health.Build{Version: versionText()},
		}),
		source: source, options: options, log: log,
		teller: &teller{source: source, node: options.NodeName},
	}
	m.checks = health.NewChecks(m.Health().Healthy, func(name health.ServiceName, err error) {
		log.Warn("health check port", "service", name.String(), "err", err)
		source.events.Service(plan.ServiceName(name), watch.Warning, "FailedToStartServiceHealthcheck", "Listen", err.Error())
	})
	m.checks.SetAddresses(m.checkAddresses(nil))
	m.loopback = newLoopbackPorts(func(service string, err error) {
		log.Warn("NodePort on a loopback address", "service", service, "err", err)
		source.events.Service(serviceName(service), watch.Warning, "FailedToServeLoopbackNodePort", "Listen", err.Error())
	})
	return m
}

// run serves until the context ends. A server that must not fail ends the process
// by fatal.
func (m *monitor) run(ctx context.Context, raw config.Raw, fatal context.CancelCauseFunc) {
	go m.checks.Run(ctx)
	go m.loopback.Run(ctx)
	for _, s := range []struct {
		health.Server
		reason string
	}{
		{health.Server{Name: "health server", Address: m.options.HealthAddress, Handler: m.HealthHandler()},
			"FailedToStartProxierHealthcheck"},
		{health.Server{Name: "metrics server", Address: m.options.MetricsAddress, Handler: m.MetricsHandler(m.pages(raw))},
			"FailedToStartMetricServer"},
	} {
		s.HardFail = m.options.BindHardFail
		s.Failed = func(err error) {
			m.log.Error(s.Name, "err", err)
			m.source.events.Node(watch.Warning, s.reason, startAction, err.Error())
		}
		go func() {
			if err := s.Run(ctx); err != nil {
				s.Failed(err)
				fatal(exitError{1, err})
			}
		}()
	}
}

// pages show the configuration of the start under the key that kube-proxy's has.
func (m *monitor) pages(raw config.Raw) health.Pages {
	return health.Pages{
		BeforeMetrics: func() { m.listen(false) },
		Profiling:     m.options.Profiling,
		Config: func() ([]byte, error) {
			return json.Marshal(map[string]any{"kubeproxy.config.k8s.io": raw.KubeProxyConfiguration})
		},
	}
}

// ended is called by the loop after each round.
func (m *monitor) ended(s proxier.Summary) {
	m.End(health.Round{
		Took: s.Took, Complete: s.Complete(), Pending: s.Pending, Draining: s.Draining,
		Conflicts: s.Conflicts, LocalOnly: s.LocalOnly, Problems: s.Problems,
	})
	for op, tally := range s.Operations {
		m.Operations(op.Kind, op.Verb, tally.Succeeded, tally.Failed)
	}
	for class, n := range s.Classes {
		m.Failures(class, n)
	}
	for _, family := range failedRestores(s.Failed) {
		m.RestoreFailed(family)
	}
	for kind, n := range s.Repairs {
		m.Repairs(kind, n)
	}
	for _, g := range s.Grown {
		m.source.events.Node(watch.Normal, "IPSetGrown", "ProgramService",
			fmt.Sprintf("ipset %s is made for %d entries, no longer %d: it is to hold %d", g.Set, g.To, g.From, g.Members))
	}
	if s.Complete() {
		m.programmed(time.Now())
		m.memory.started()
	}
	m.eligible()
	if s.Dirty > 0 {
		m.updateChecks()
	}
	m.count()
	m.teller.ended(s.Dirty, m.proxier.Drains())
}

// eligible: the Node is there and stays. Without an API server a folder need not
// have a Node.
func (m *monitor) eligible() {
	node, known := m.source.Node()
	m.Health().SetEligible((known || m.options.Manifests != "") && !node.Leaving)
}

func (m *monitor) updateChecks() {
	for name, check := range m.proxier.TakeHealthChanges() {
		m.checks.Set(health.ServiceName(name), health.Check(check))
	}
}

// ownersPeriod bounds how often the metrics of traffic learn whose the servers are: all
// of them are walked through.
const ownersPeriod = 10 * time.Second

func (m *monitor) count() {
	if m.traffic != nil && time.Since(m.owned) >= ownersPeriod {
		m.owned = time.Now()
		m.traffic.own(m.proxier.Servers())
	}
	i := m.proxier.Inventory()
	m.SetInventory(health.Inventory{
		Services: i.Services, VirtualServers: i.VirtualServers, RealServers: i.RealServers,
		BoundAddresses: i.Bound, CapturedAddresses: i.Captured, SetMembers: i.Members, SetSizes: i.SetSizes,
		NoLocalInternal: i.NoLocal.Internal, NoLocalExternal: i.NoLocal.External,
	})
}

// pickAddresses returns what picks the addresses that serve NodePorts. Health checks
// follow them, and the loopback ones, which IPVS cannot serve: their packets never leave
// the host.
func (m *monitor) pickAddresses(nodePorts host.NodePortSelectors) proxier.NodePorts {
	return func(addrs, nodeIPs []netip.Addr) []netip.Addr {
		picked := host.NodePortAddresses(addrs, withBindAddress(nodeIPs, m.options.BindAddress), nodePorts)
		m.checks.SetAddresses(m.checkAddresses(picked))
		loopback, others := splitLoopback(picked)
		m.loopback.setAddresses(loopback)
		return others
	}
}

// checkAddresses are those that answer health checks: all of a family whose
// NodePorts are unlimited, else those that serve NodePorts.
func (m *monitor) checkAddresses(nodePorts []netip.Addr) []netip.Addr {
	selectors, err := host.ParseNodePortSelectors(m.options.NodePorts)
	if err != nil {
		return nil // build refuses it
	}
	addrs := slices.Clone(nodePorts)
	for _, all := range []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()} {
		if !selectors.Unlimited(all.Is6()) || all.Is6() && !hostHasIPv6() {
			continue
		}
		addrs = slices.DeleteFunc(addrs, func(a netip.Addr) bool { return a.Is6() == all.Is6() })
		addrs = append(addrs, all)
	}
	return addrs
}

// relay tells the health of the proxy that something waits before it wakes the loop,
// so that a loop that hangs is noticed.
type relay struct {
	proxier.Source
	monitor *monitor
	changed chan struct{}
}

func (m *monitor) relay(ctx context.Context) relay {
	r := relay{m.source.Source, m, make(chan struct{}, 1)}
	go func() {
		for {
			select {
			case <-ctx.Done():
				return
			case <-r.Source.Changed():
			}
			m.listen(true)
			if r.Synced() {
				m.Queued()
			}
			poke(r.changed)
		}
	}()
	return r
}

func (r relay) Changed() <-chan struct{} { return r.changed }
