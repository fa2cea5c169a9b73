//go:build kernel

package model

import (
	"context"
	"errors"
	"log/slog"
	"math/bits"
	"net/netip"
	"slices"
	"sync"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
	setkernel "kube-ipvs-proxy/ipsetutil/kernel"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/kernel"
	"kube-ipvs-proxy/proxier"
	"kube-ipvs-proxy/proxier/host"
	"kube-ipvs-proxy/proxier/netfilter"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/reconcile"
	"kube-ipvs-proxy/proxier/watch"
)

// The times of the agents: short, so that what waits for them comes soon.
var times = reconcile.Config{
	DrainTimeout: time.Second, DrainCheck: 500 * time.Millisecond,
	SyncPeriod: time.Second, RefreshPeriod: 6 * time.Second,
	NodeName: testbed.Node1,
}

// agent is the loop with the kernel's doors, in this process: a start takes
// milliseconds, and it can die between any two operations. Its kernel is that of a
// host of the lab.
type agent struct {
	folder string
	// bare: it leaves out the rules.
	bare bool
	hurt *hurt
	stop context.CancelFunc
	done <-chan struct{}
	err  error // of the run; read it after done

	mu       sync.Mutex
	changed  chan struct{} // closed at each round and line
	last     proxier.Summary
	settled  string // the revision last settled
	failures []string
}

// start runs an agent on a host until end or its death.
func start(h *testbed.Host, folder string, hurt *hurt) *agent {
	a := &agent{folder: folder, hurt: hurt, changed: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	hurt.died = stop
	a.done = h.Thread(func(err error) {
		if err == nil {
			a.err = a.run(ctx)
		} else {
			a.err = err
		}
	})
	return a
}

// once brings the objects of a folder into the kernel of a host; bare: not the rules,
// which depend on no object.
func once(h *testbed.Host, folder string, bare bool) error {
	a := &agent{folder: folder, bare: bare, hurt: &hurt{}, changed: make(chan struct{})}
	var result error
	<-h.Thread(func(err error) {
		if err != nil {
			result = err
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		loop, end, err := a.build(ctx)
		if err != nil {
			result = err
			return
		}
		_, result = loop.Once(ctx)
		end()
	})
	return result
}

// end stops the agent in good order; one that died is none.
func (a *agent) end() error {
	a.stop()
	<-a.done
	if errors.Is(a.err, context.Canceled) || errors.Is(a.err, context.DeadlineExceeded) {
		return nil
	}
	return a.err
}

// late tells that the agent ended because a program took too long at its start, as on a
// machine that is starved: it has to be started again, as the kubelet does.
func (a *agent) late() bool {
	select {
	case <-a.done:
		return errors.Is(a.err, context.DeadlineExceeded)
	default:
		return false
	}
}

func (a *agent) run(ctx context.Context) error {
	loop, end, err := a.build(ctx)
	if err != nil {
		return err
	}
	defer end()
	return loop.Run(ctx)
}

// build wires the loop as the command does. It runs on the host's thread.
func (a *agent) build(ctx context.Context) (loop *proxier.Proxier, end func(), err error) {
	var closers []func() error
	end = func() {
		for _, c := range slices.Backward(closers) {
			_ = c()
		}
	}
	keep := func(c interface{ Close() error }) { closers = append(closers, c.Close) }
	release, err := host.KernelRelease(host.ProcSys)
	if err != nil {
		return nil, end, err
	}
	host.EnsureSysctls(host.ProcSys, host.Sysctls(host.SysctlOptions{Release: release, IPv6: true}))
	source, err := watch.NewManifests(ctx, a.folder, testbed.Node1, func(p watch.Problem) { a.fail("manifest: " + p.String()) })
	if err != nil {
		return nil, end, err
	}
	flags := netfilter.DefaultFlags()
	flags.Detector = netfilter.Detector{Mode: netfilter.DetectCIDR,
		IPv4: netip.MustParsePrefix("10.244.0.0/16"), IPv6: netip.MustParsePrefix("fd44::/48")}
	doors, err := openDoors(ctx, flags, keep)
	if err != nil {
		return nil, end, err
	}
	told, err := a.rules(ctx, flags, &doors)
	if err != nil {
		return nil, end, err
	}
	node, err := openNode(ctx, keep)
	if err != nil {
		return nil, end, err
	}
	loop = proxier.New(proxier.Config{
		NodeName: testbed.Node1, Plan: plan.Config{Scheduler: "rr"},
		MarkBase: flags.Marks.Capture, MarkBits: uint8(bits.OnesCount32(flags.Marks.Index)),
		Reconcile: times, RulesChanged: told, Events: watch.NoEvents{}, End: a.ended,
	}, source, node, func(addrs, nodeIPs []netip.Addr) []netip.Addr {
		return slices.DeleteFunc(host.NodePortAddresses(addrs, nodeIPs, host.NodePortSelectors{}), netip.Addr.IsLoopback)
	}, a.hurt.doors(doors), slog.New(lines{a}))
	return loop, end, nil
}

func openDoors(ctx context.Context, flags netfilter.Flags, keep func(interface{ Close() error })) (reconcile.Doors, error) {
	ipvs, err := kernel.Open(ctx)
	if err != nil {
		return reconcile.Doors{}, err
	}
	keep(ipvs)
	sets, err := setkernel.Open(ctx)
	if err != nil {
		return reconcile.Doors{}, err
	}
	keep(sets)
	routes := ipvsutil.DefaultCaptureRoutes
	routes.Mark = flags.Marks.Capture
	addresses, err := kernel.OpenAddresses(ctx, routes)
	if err != nil {
		return reconcile.Doors{}, err
	}
	keep(addresses)
	return reconcile.Doors{IPVS: ipvs, Sets: sets, Addresses: addresses}, nil
}

// rules opens the doors of netfilter, unless the agent is bare.
func (a *agent) rules(ctx context.Context, flags netfilter.Flags, doors *reconcile.Doors) (<-chan struct{}, error) {
	if a.bare {
		doors.Rules = noRules{}
		return nil, nil
	}
	rules, err := netfilter.New(ctx, flags)
	if err != nil {
		return nil, err
	}
	doors.Rules, doors.Flows = rules, rules
	return rules.Watch(ctx)
}

// noRules are always right.
type noRules struct{}

func (noRules) Ensure(context.Context) (bool, error) { return false, nil }

// node gives the loop the host's events.
type node struct {
	*host.Node
	changed, damaged chan struct{}
}

func openNode(ctx context.Context, keep func(interface{ Close() error })) (*node, error) {
	opened, err := host.OpenNode()
	if err != nil {
		return nil, err
	}
	keep(opened)
	events, err := opened.Watch(ctx)
	if err != nil {
		return nil, err
	}
	n := &node{opened, make(chan struct{}, 1), make(chan struct{}, 1)}
	go func() {
		for e := range events {
			if e.Has(host.NodeAddresses) {
				poke(n.changed)
			}
			if e.Has(host.DeviceGone) || e.Has(host.RuleGone) {
				poke(n.damaged)
			}
		}
	}()
	return n, nil
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (n *node) Addrs(ctx context.Context) ([]netip.Addr, error) { return n.Addresses(ctx) }
func (n *node) Changed() <-chan struct{}                        { return n.changed }
func (n *node) Damaged() <-chan struct{}                        { return n.damaged }

// ended notes what a round left.
func (a *agent) ended(s proxier.Summary) { a.note(func() { a.last = s }) }

func (a *agent) fail(text string) { a.note(func() { a.failures = append(a.failures, text) }) }

func (a *agent) note(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
	close(a.changed)
	a.changed = make(chan struct{})
}

// rest waits until the revision is in the kernel and nothing is left to do, drains
// neither.
func (a *agent) rest(revision string) error {
	limit := time.After(patience)
	for {
		a.mu.Lock()
		settled, last, changed, failures := a.settled, a.last, a.changed, a.failures
		a.mu.Unlock()
		if len(failures) > 0 {
			return errors.New(failures[0])
		}
		if settled == revision && last.Complete() && last.Draining+last.Lingering == 0 {
			return nil
		}
		select {
		case <-changed:
		case <-a.done:
			return errors.Join(errors.New("the agent ended"), a.err)
		case <-limit:
			return errors.Join(errors.New("no rest"), last.Err(), last.Unread)
		}
	}
}

// lines reads the revision of the lines that say settled.
type lines struct{ agent *agent }

func (l lines) Enabled(context.Context, slog.Level) bool { return true }
func (l lines) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l lines) WithGroup(string) slog.Handler            { return l }

func (l lines) Handle(_ context.Context, r slog.Record) error {
	r.Attrs(func(attr slog.Attr) bool {
		if r.Message == "settled" && attr.Key == "revision" {
			l.agent.note(func() { l.agent.settled = attr.Value.String() })
		}
		return true
	})
	return nil
}
