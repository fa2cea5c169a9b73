package reconcile

import (
	"context"
	"net/netip"
	"strings"

	"kube-ipvs-proxy/ipsetutil"
	setfake "kube-ipvs-proxy/ipsetutil/fake"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/fake"
	"kube-ipvs-proxy/proxier/plan"
)

// guard looks at every single change before it is made, and fails the test when it
// takes away something good or comes in the wrong order. It holds at every prefix of
// the operations, with faults and without.
type guard struct {
	world *world
	// history is every change that was asked for, in order.
	history []string
	members map[ipsetutil.Member]bool
	servers map[string]bool
	bound   map[netip.Addr]bool
}

// newGuard looks at what the kernel has.
func newGuard(w *world) *guard {
	g := &guard{world: w, members: map[ipsetutil.Member]bool{}, servers: map[string]bool{}, bound: map[netip.Addr]bool{}}
	ctx := context.Background()
	for _, s := range ipsetutil.All() {
		entries, _ := w.sets.Members(ctx, s.Name)
		for e := range entries {
			g.members[ipsetutil.Member{Set: s.Name, Entry: e}] = true
		}
	}
	for line := range strings.Lines(w.ipvs.Dump()) { // which no fault hides
		if text, ok := strings.CutPrefix(line, "vs "); ok {
			name, _, _ := strings.Cut(text, " ")
			g.servers[name] = true
		}
	}
	bound, _ := w.addresses.Bound(ctx)
	for _, a := range bound {
		g.bound[a] = true
	}
	return g
}

func (g *guard) note(what string) { g.history = append(g.history, what) }

func (g *guard) bad(format string, args ...any) {
	g.world.t.Helper()
	g.world.t.Errorf(format, args...)
}

type guardedIPVS struct {
	*fake.IPVS
	guard *guard
}

func (d guardedIPVS) Do(ctx context.Context, ops []ipvsutil.Op) []error {
	var errs []error
	for i, op := range ops {
		d.guard.op(op)
		one := d.IPVS.Do(ctx, ops[i:i+1])
		switch op.Verb {
		case ipvsutil.CreateVirtualServer:
			d.guard.servers[op.Server.Key.String()] = true
		case ipvsutil.DeleteVirtualServer:
			d.guard.servers[op.Server.Key.String()] = one != nil
		}
		if one != nil {
			if errs == nil {
				errs = make([]error, len(ops))
			}
			errs[i] = one[0]
		}
	}
	return errs
}

func (g *guard) op(op ipvsutil.Op) {
	g.note(op.String())
	key := op.Server.Key
	want, desired := g.world.claimed(key)
	wanted, weighs := false, false
	for _, real := range want.RealServers {
		if real.Addr == op.Real.Addr {
			wanted, weighs = true, real.Weight != 0
		}
	}
	switch op.Verb {
	case ipvsutil.CreateVirtualServer:
		for m := range g.world.ledger.Members() {
			if leadsTo(m, key) && !g.members[m] {
				g.bad("%v comes before %v", op, m)
			}
		}
		if key.Mark != 0 && len(g.world.seen.bearers[key]) == 0 {
			g.bad("%v comes before any entry with its mark", op)
		}
	case ipvsutil.DeleteVirtualServer:
		if desired {
			g.bad("%v: it is desired", op)
		}
		addr := key.Addr.Addr()
		if !g.world.wantBound(addr) && g.bound[addr] && !g.world.anyFailed() {
			g.bad("%v: its address is still bound", op)
		}
	case ipvsutil.DeleteRealServer:
		if wanted {
			g.bad("%v: it is desired", op)
		}
	case ipvsutil.UpdateRealServer:
		if weighs && op.Real.Weight == 0 {
			g.bad("%v: it is desired", op)
		}
	}
}

// anyFailed: after a lie or a failure the order of going down is relaxed. So it is
// while an address waits for another of its servers, which cannot be read.
func (w *world) anyFailed() bool {
	return w.lies || len(w.failed.Bound)+len(w.failing.bound)+len(w.waiting.Bound) > 0
}

// leadsTo tells the entries that have to be there before a server.
func leadsTo(m ipsetutil.Member, key ipvsutil.Key) bool {
	if isHairpin(m) || isException(m) || key.Mark != 0 {
		return false
	}
	return m.Entry.Addr.IsValid() && memberKey(m.Entry) == key
}

type guardedSets struct {
	*setfake.Fake
	guard *guard
}

func (d guardedSets) Do(ctx context.Context, changes []ipsetutil.Change) []error {
	var errs []error
	for i, c := range changes {
		d.guard.note(c.String())
		if _, desired := d.guard.world.ledger.Member(c.Member); desired && c.Delete {
			d.guard.bad("%v: it is desired", c)
		}
		one := d.Fake.Do(ctx, changes[i:i+1])
		if one == nil {
			d.guard.members[c.Member] = !c.Delete
		}
		if one != nil {
			if errs == nil {
				errs = make([]error, len(changes))
			}
			errs[i] = one[0]
		}
	}
	return errs
}

func (d guardedSets) Destroy(ctx context.Context, name string) error {
	headers, err := d.Fake.Headers(context.Background())
	want, ours := ipsetutil.ByName(name)
	if h, there := headers[name]; ours && (!there && err == nil || h.Swappable(want)) {
		d.guard.bad("destroy %s: such a set is never destroyed", name)
	}
	return d.Fake.Destroy(ctx, name)
}

type guardedAddresses struct {
	*fake.Addresses
	guard *guard
}

func (d guardedAddresses) Bind(ctx context.Context, addrs []netip.Addr) []error {
	for _, a := range addrs {
		d.guard.come("bind", a)
		d.guard.bound[a] = true
	}
	return d.Addresses.Bind(ctx, addrs)
}

func (d guardedAddresses) Capture(ctx context.Context, addrs []netip.Addr) []error {
	for _, a := range addrs {
		d.guard.come("capture", a)
	}
	return d.Addresses.Capture(ctx, addrs)
}

// come wants all servers of an address to be there.
func (g *guard) come(verb string, addr netip.Addr) {
	g.note(verb + " " + addr.String())
	for key := range g.world.ledger.Servers() {
		if key.Addr.Addr() == addr && key.Mark == 0 && !g.servers[key.String()] && !g.members[plan.MemberOf(ipsetutil.Refuse, key)] {
			g.bad("%s %v comes before %v", verb, addr, key)
		}
	}
}

func (d guardedAddresses) Unbind(ctx context.Context, addrs []netip.Addr) []error {
	for _, a := range addrs {
		d.guard.note("unbind " + a.String())
		if d.guard.world.ledger.Bound(a) {
			d.guard.bad("unbind %v: it is desired", a)
		}
	}
	errs := d.Addresses.Unbind(ctx, addrs)
	for i, a := range addrs {
		d.guard.bound[a] = errs != nil && errs[i] != nil
	}
	return errs
}

func (d guardedAddresses) Release(ctx context.Context, addrs []netip.Addr) []error {
	for _, a := range addrs {
		d.guard.note("release " + a.String())
		if d.guard.world.ledger.Captured(a) {
			d.guard.bad("release %v: it is desired", a)
		}
	}
	return d.Addresses.Release(ctx, addrs)
}
