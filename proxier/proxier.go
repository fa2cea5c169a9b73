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
	// Damaged is poked when the device of the bound addresses, or the rule of the
	// captured ones, was lost.
	Damaged() <-chan struct{}
	// Unbound gives addresses that went from the device, whoever removed them; it may
	// be nil.
	Unbound() <-chan []netip.Addr
}

// NodePorts picks, out of a node's addresses, those that serve NodePorts.
type NodePorts func(addrs, nodeIPs []netip.Addr) []netip.Addr

// Config is what the loop needs beside its parts.
type Config struct {
	NodeName string
	Plan     plan.Config
	// MinSyncPeriod is the least time between the ends of two rounds; zero means none.
	MinSyncPeriod time.Duration
	// MarkBase and MarkBits lay out the marks of short circuits; see ledger.New.
	MarkBase  uint32
	MarkBits  uint8
	Reconcile reconcile.Config
	// RulesChanged is poked when somebody changed static rules, ours or not, and closed
	// when nobody tells any more; nil where nobody tells at all.
	RulesChanged <-chan struct{}
	// Begin is called before a round drains the dirty names, End after it; both may be
	// nil.
	Begin func()
	End   func(Summary)
	// Events tells the users of the cluster what cannot be served; nil: nobody.
	Events watch.Eventer
	// Reserve keeps the active NodePorts out of the node's own connections; see
	// reserve.Ports. Nil: nothing does.
	Reserve func(ctx context.Context, ports map[uint16]bool) (changed bool, err error)
	// Loopback is called, by the loop, when other NodePorts are to be served on loopback
	// addresses than before. It may be nil.
	Loopback func(map[LoopbackKey]LoopbackTarget)
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
	// listAddrs: the addresses of the host's devices must be listed.
	listAddrs bool
	created   time.Time
	// planned: every Service was planned at least once.
	planned bool
	// complete: the last round left nothing undone.
	complete bool
	problems problems
	panicked panicked
	failures failures
	revision string
	podCIDRs []netip.Prefix
	reserved reserved
	loopback loopback
	// adoptions are changes of the configuration, taken by Run.
	adoptions chan Adoption
}

// apiServer is the Service of the API server, which everything on the node waits for.
var apiServer = plan.ServiceName{Namespace: "default", Name: "kubernetes"}

// New wires the loop. Doors carry its writes to the kernel.
func New(config Config, source Source, host Host, nodePorts NodePorts, doors reconcile.Doors, log *slog.Logger) *Proxier {
	desired := ledger.New(config.MarkBase, config.MarkBits)
	config.Reconcile.First = apiServer
	config.Reconcile.NodeName = config.NodeName
	return &Proxier{
		config: config, source: source, host: host, nodePorts: nodePorts,
		sets: doors.Sets, ledger: desired,
		kernel: reconcile.New(doors, desired, config.Reconcile),
		log:    log, problems: newProblems(log, config.Events),
		created:   time.Now(),
		adoptions: make(chan Adoption),
		listAddrs: true, panicked: panicked{}, failures: newFailures(log),
		loopback: loopback{of: map[plan.ServiceName]loopbackClaim{}},
		reserved: newReserved(config.Reserve, lookPeriod(config.Reconcile), log),
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
			if wait := p.rest(ctx); wait > 0 {
				timer.Reset(wait)
				continue
			}
		case <-p.source.Changed():
		case <-p.host.Changed():
			p.listAddrs = true
		case a := <-p.adoptions:
			p.adopt(a)
		case <-p.host.Damaged():
			p.log.Warn("the device of the bound addresses, or the rule of the captured ones, was lost, or may have been")
			p.kernel.DeviceLost()
		case gone := <-p.host.Unbound():
			p.kernel.Unbound(gone)
		case _, told := <-p.config.RulesChanged:
			if !told && ctx.Err() == nil {
				p.log.Warn("changes of rules are told no more; they are looked at from time to time")
			}
			if !told {
				p.config.RulesChanged = nil
			}
			p.kernel.RulesChanged()
		}
		if !p.source.Synced() {
			continue
		}
		next := p.work(ctx).RetryIn
		if !sleep(ctx, p.config.MinSyncPeriod) {
			return ctx.Err()
		}
		timer.Stop()
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// rest glances at the kernel where the time for that is all that has come, and returns how
// long to wait then; zero asks for a round.
func (p *Proxier) rest(ctx context.Context) time.Duration {
	if !p.complete || !p.panicked.next().IsZero() {
		return 0
	}
	return p.kernel.Rest(ctx)
}

// onceTries bounds Once: after so many rounds that left something, it gives up.
const onceTries = 10

// Once reads, plans and reconciles until the kernel equals the plan, and returns
// what the rounds did together. Drains are not waited for, but addresses that go once
// answers have come are: nobody else would unbind them.
func (p *Proxier) Once(ctx context.Context) (ops int, err error) {
	if err := p.waitSynced(ctx); err != nil {
		return 0, err
	}
	for range onceTries {
		s := p.work(ctx)
		ops += s.Ops
		if s.Complete() && s.Leaving == 0 {
			return ops, nil
		}
		err = errors.Join(s.Unread, s.Err())
		if !sleep(ctx, s.RetryIn) {
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
	p.planNode(nil)
	p.planAll(union(p.source.Names(), p.ledger.Names()), nil)
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
