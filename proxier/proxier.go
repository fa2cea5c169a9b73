// Package proxier is the loop of the agent: one goroutine that waits for dirty
// Services, plans them, records their claims and reconciles the kernel. Nothing
// else writes to the kernel; drains, retries and refreshes are timers of the loop.
package proxier

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/reconcile"
	"kube-ipvs-proxy/proxier/watch"
)

// Source says which Services are dirty and what they are now.
type Source interface {
	// Changed is poked when there is something to drain.
	Changed() <-chan struct{}
	// Synced tells that the first complete read is done.
	Synced() bool
	// Drain returns the dirty names and forgets them.
	Drain() watch.Dirty
	// Service returns a Service and its endpoints as they are now; nil when there is none.
	Service(name plan.ServiceName) (*plan.Service, []plan.Endpoint)
	// Names returns every Service that there is.
	Names() []plan.ServiceName
	// Node returns what is known of this node; false when its object is not there.
	Node() (watch.NodeInfo, bool)
}

// Host tells the addresses of the host's own devices.
type Host interface {
	// Addrs lists all addresses but those of kube-ipvs0.
	Addrs(ctx context.Context) ([]netip.Addr, error)
	// Changed is poked when an address or a link came or went.
	Changed() <-chan struct{}
	// Damaged is poked when the device of the bound addresses was lost.
	Damaged() <-chan struct{}
}

// NodePorts picks, out of a node's addresses, those that serve NodePorts.
type NodePorts func(addrs, nodeIPs []netip.Addr) []netip.Addr

// Config is what the loop needs beside its parts.
type Config struct {
	NodeName string
	Plan     plan.Config
	// MinSyncPeriod is the least time between the ends of two rounds; zero means none.
	MinSyncPeriod time.Duration
	// MarkShift and MarkBits say where the index of a short circuit stands in the
	// firewall mark; zero bits turn the short circuit off.
	MarkShift, MarkBits uint8
	Reconcile           reconcile.Config
	// Events tells the users of the cluster what cannot be served; nil: nobody.
	Events watch.Eventer
	// PodCIDRs is called, by the loop, when the Node has other pod networks than
	// before; the rules are made anew after it. It may be nil.
	PodCIDRs func([]netip.Prefix)
}

// Proxier is the loop. Build it with New, run it with Run or Once.
type Proxier struct {
	config    Config
	source    Source
	host      Host
	nodePorts NodePorts
	sets      ipsetutil.Sets
	ledger    *ledger.Ledger
	kernel    *reconcile.Reconciler
	log       *slog.Logger
	node      plan.Node
	// planned: every Service was planned at least once.
	planned  bool
	problems problems
	revision string
	podCIDRs []netip.Prefix
}

// New wires the loop. Doors carry its writes to the kernel.
func New(config Config, source Source, host Host, nodePorts NodePorts, doors reconcile.Doors, log *slog.Logger) *Proxier {
	desired := ledger.New(config.MarkShift, config.MarkBits)
	return &Proxier{
		config: config, source: source, host: host, nodePorts: nodePorts,
		sets: doors.Sets, ledger: desired,
		kernel: reconcile.New(doors, desired, config.Reconcile),
		log:    log, problems: newProblems(log, config.Events),
	}
}

// Run works until the context ends, and returns its error. The kernel keeps what
// it has: traffic goes on without the agent.
func (p *Proxier) Run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-p.source.Changed():
		case <-p.host.Changed():
		case <-p.host.Damaged():
			p.log.Warn("device of the bound addresses was lost: reading the kernel anew")
			p.kernel.Doubt()
		}
		if !p.source.Synced() {
			continue
		}
		next := p.round(ctx)
		if !sleep(ctx, p.config.MinSyncPeriod) {
			return ctx.Err()
		}
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// onceTries bounds Once: after so many rounds that left something, it gives up.
const onceTries = 10

// Once reads, plans and reconciles until the kernel equals the plan, and returns
// what the rounds did together. Drains are not waited for.
func (p *Proxier) Once(ctx context.Context) (ops int, err error) {
	if err := p.waitSynced(ctx); err != nil {
		return 0, err
	}
	for range onceTries {
		report := p.work(ctx)
		ops += report.Ops
		if err = report.Err(); err == nil && report.Pending == 0 {
			return ops, nil
		}
		if !sleep(ctx, report.RetryIn) {
			return ops, ctx.Err()
		}
	}
	return ops, errors.Join(errors.New("the kernel does not equal the plan"), err)
}

// Plan reads and plans all Services, writes nothing to the kernel, and returns what
// is desired. It is for commands that compare and explain.
func (p *Proxier) Plan(ctx context.Context) (*ledger.Ledger, error) {
	if err := p.waitSynced(ctx); err != nil {
		return nil, err
	}
	dirty := p.source.Drain()
	if err := p.refreshNode(ctx, &dirty); err != nil {
		return nil, err
	}
	if err := p.adoptMarks(ctx); err != nil {
		return nil, err
	}
	p.planAll(p.source.Names())
	return p.ledger, nil
}

func (p *Proxier) waitSynced(ctx context.Context) error {
	for !p.source.Synced() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-p.source.Changed():
		}
	}
	return nil
}

// round works once and says in what time to come again; zero means when called.
func (p *Proxier) round(ctx context.Context) time.Duration {
	return p.work(ctx).RetryIn
}

// hostRetry is the time after which a failed listing of the host's addresses is repeated.
const hostRetry = time.Second

func (p *Proxier) work(ctx context.Context) reconcile.Report {
	start := time.Now()
	dirty := p.source.Drain()
	hostErr := p.refreshNode(ctx, &dirty)
	if !p.planned {
		if err := p.adoptMarks(ctx); err != nil {
			p.log.Error("reading the marks that the kernel has", "err", err)
			return reconcile.Report{Failed: []error{err}, Failures: 1, RetryIn: hostRetry}
		}
		dirty.All = true
	}
	names := dirty.Services
	if dirty.All {
		names = union(p.source.Names(), p.ledger.Names(), names)
	}
	touched := p.planAll(names)
	planned := time.Since(start)
	report := p.kernel.Round(ctx, touched)
	p.problems.conflicts(p.ledger.Conflicts())
	if hostErr != nil && (report.RetryIn == 0 || report.RetryIn > hostRetry) {
		report.RetryIn = hostRetry
	}
	p.tell(report, len(names), planned, time.Since(start), dirty.Revision)
	return report
}

// planAll plans the node and the named Services, and records what they claim.
func (p *Proxier) planAll(names []plan.ServiceName) ledger.Touched {
	touched := p.ledger.Replace(ledger.Owner{}, plan.ForNode(p.node))
	for _, name := range names {
		touched.Merge(p.plan(name))
	}
	if !p.planned {
		p.planned = true
		p.ledger.ForgetAdopted()
	}
	return touched
}

// tell logs one line for a round that did something, and one when the state of the
// source that was read is in the kernel.
func (p *Proxier) tell(report reconcile.Report, dirty int, planned, took time.Duration, revision string) {
	for _, err := range report.Failed {
		p.log.Error("operation failed", "err", err)
	}
	if report.Ops > 0 || report.Failures > 0 {
		p.log.Info("round", "dirty", dirty, "ops", report.Ops, "failed", report.Failures,
			"pending", report.Pending, "draining", report.Draining,
			"planned", planned.Round(time.Microsecond), "took", took.Round(time.Microsecond))
	}
	if revision != "" {
		p.revision = revision
	}
	if p.revision != "" && report.Pending == 0 && report.Failures == 0 {
		p.log.Info("settled", "revision", p.revision)
		p.revision = ""
	}
}

// adoptMarks has the ledger give each short circuit the mark that the kernel has for it.
func (p *Proxier) adoptMarks(ctx context.Context) error {
	names, err := p.sets.Names(ctx)
	if err != nil {
		return err
	}
	for _, ipv6 := range []bool{false, true} {
		name := ipsetutil.ShortCircuit.Name(ipv6)
		if !slices.Contains(names, name) {
			continue
		}
		entries, err := p.sets.Members(ctx, name)
		if err != nil {
			return err
		}
		p.ledger.AdoptMarks(ipv6, entries)
	}
	return nil
}

// sleep waits, and reports false when the context ended first.
func sleep(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
