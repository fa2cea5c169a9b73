package reconcile

import (
	"context"
	"net/netip"
	"slices"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

// lingering is what is kept for a virtual server that nobody claims any more while
// TCP connections through it go on: the server itself with its real servers at
// weight 0, and what its packets and its being ours need. New connections are
// refused. Everything is taken from the picture, so that a restart does the same.
type lingering struct {
	members         []ipsetutil.Member
	bound, captured bool
}

// lingers holds all that lingers. What several of them keep is counted.
type lingers struct {
	servers         map[ipvsutil.Key]lingering
	members         map[ipsetutil.Member]int
	bound, captured map[netip.Addr]int
}

func newLingers() lingers {
	return lingers{
		servers: map[ipvsutil.Key]lingering{}, members: map[ipsetutil.Member]int{},
		bound: map[netip.Addr]int{}, captured: map[netip.Addr]int{},
	}
}

// claimed is the server that the ledger desires. A mark server to which no frontend
// leads, since another Service has them all, is none: no entry would say whose it is.
func (r *Reconciler) claimed(key ipvsutil.Key) (ledger.Server, bool) {
	want, ok := r.desired.Server(key)
	if ok && key.Mark != 0 {
		ok = slices.ContainsFunc(want.Frontends, func(frontend ipvsutil.Key) bool {
			mark, _ := r.desired.Member(plan.MemberOf(ipsetutil.ShortCircuit, frontend))
			return mark == key.Mark
		})
	}
	return want, ok
}

// leadToMarks adds the mark servers that entries lead to, or led to.
func (r *Reconciler) leadToMarks(work *ledger.Touched) {
	for m := range work.Members {
		if !bearsMark(m) {
			continue
		}
		wanted, _ := r.wantMember(m)
		have, _ := r.seen.member(m)
		for _, mark := range []uint32{wanted, have} {
			if mark != 0 {
				work.Servers = set(work.Servers, ipvsutil.MarkKey(mark, m.Entry.Addr.Is6()))
			}
		}
	}
}

// shortCircuits are the sets whose entries bear marks.
var shortCircuits = [2]string{ipsetutil.ShortCircuit.Name(false), ipsetutil.ShortCircuit.Name(true)}

func bearsMark(m ipsetutil.Member) bool {
	return m.Set == shortCircuits[0] || m.Set == shortCircuits[1]
}

// wantServer is the server that should be: one that is claimed, or one that lingers.
func (r *Reconciler) wantServer(key ipvsutil.Key) (ledger.Server, bool) {
	if want, ok := r.claimed(key); ok {
		return want, true
	}
	if _, ok := r.lingers.servers[key]; ok {
		return ledger.Server{
			VirtualServer: r.seen.servers[key], Protocol: ipvsutil.TCP, DrainTimeout: r.timeouts[key],
		}, true
	}
	return ledger.Server{}, false
}

func (r *Reconciler) wantMember(m ipsetutil.Member) (mark uint32, ok bool) {
	if mark, ok := r.desired.Member(m); ok {
		return mark, true
	}
	if r.lingers.members[m] == 0 {
		return 0, r.shields(m)
	}
	if m.Entry.Protocol == journalProtocol {
		mark = markOf(m)
	}
	return mark, true
}

// markOf is the mark in the address of a markEntry.
func markOf(m ipsetutil.Member) uint32 {
	b := m.Entry.Addr.AsSlice()
	b = b[len(b)-4:]
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}

func (r *Reconciler) wantBound(a netip.Addr) bool {
	return r.desired.Bound(a) || r.lingers.bound[a] > 0
}

func (r *Reconciler) wantCaptured(a netip.Addr) bool {
	return r.desired.Captured(a) || r.lingers.captured[a] > 0
}

// lingerChanges lets servers linger that are not desired any more but in use, and
// ends it for those that came back, went, or have no connection left. What that
// touches comes into work.
func (r *Reconciler) lingerChanges(ctx context.Context, report *Report, work *ledger.Touched) {
	for key := range work.Servers {
		_, claimed := r.claimed(key)
		_, there := r.seen.servers[key]
		_, lingers := r.lingers.servers[key]
		switch {
		case lingers && (claimed || !there || len(r.seen.reals[key]) == 0 || r.addressLeft(key)):
			r.endLinger(key, work)
		case !lingers && !claimed && there && !r.addressLeft(key) && r.inUse(ctx, report, key):
			r.linger(key, work)
		}
	}
}

// addressLeft tells that a server is a NodePort's at an address that the node has no more:
// no packet comes to it, and once the address is out of its set nothing would say whose
// the server is.
func (r *Reconciler) addressLeft(key ipvsutil.Key) bool {
	addr := key.Addr.Addr()
	if key.Mark != 0 || has(r.seen.bound, addr) || has(r.seen.captured, addr) {
		return false
	}
	node := ipsetutil.Member{Set: ipsetutil.NodeIP.Name(addr.Is6()), Entry: ipsetutil.Entry{Addr: addr}}
	if _, ok := r.desired.Member(node); ok {
		return false
	}
	isOurs := func(m ipsetutil.Member) bool { return isMember(&r.seen, m) }
	external := slices.ContainsFunc(lingerKinds, func(k ipsetutil.Kind) bool { return isOurs(plan.MemberOf(k, key)) })
	port := slices.ContainsFunc(nodePortKinds, func(k ipsetutil.Kind) bool { return isOurs(plan.MemberOf(k, key)) })
	return port && !external
}

// inUse looks whether TCP connections go on through a server. When that cannot be
// told they may.
func (r *Reconciler) inUse(ctx context.Context, report *Report, key ipvsutil.Key) bool {
	if r.drainTimeout(r.timeouts[key]) == 0 || r.seen.protocol(key) != ipvsutil.TCP || len(r.seen.reals[key]) == 0 {
		return false
	}
	states, err := r.doors.IPVS.RealServers(ctx, key)
	report.count("real_server", "list", err)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(states, func(s ipvsutil.RealServerState) bool { return !idle(s.Connections) })
}

// lingerKinds are the sets whose entries a connection's packets need, or by which
// the server is ours.
var lingerKinds = []ipsetutil.Kind{
	ipsetutil.ClusterIP, ipsetutil.ExternalIP, ipsetutil.ExternalIPLocal,
	ipsetutil.LoadBalancer, ipsetutil.LoadBalancerLocal, ipsetutil.Capture,
}

// nodePortKinds are those of NodePorts by protocol; only TCP lingers.
var nodePortKinds = []ipsetutil.Kind{ipsetutil.NodePortTCP, ipsetutil.NodePortLocalTCP}

func (r *Reconciler) linger(key ipvsutil.Key, work *ledger.Touched) {
	l := lingering{}
	if key.Mark != 0 {
		l.members = []ipsetutil.Member{markEntry(key)}
	} else {
		l = r.keep(key)
	}
	r.lingers.servers[key] = l
	for _, m := range l.members {
		r.lingers.members[m]++
		work.Members = set(work.Members, m)
	}
	addr := key.Addr.Addr()
	if l.bound {
		r.lingers.bound[addr]++
	}
	if l.captured {
		r.lingers.captured[addr]++
	}
}

// keep finds what an address server has in the kernel.
func (r *Reconciler) keep(key ipvsutil.Key) lingering {
	addr := key.Addr.Addr()
	l := lingering{bound: has(r.seen.bound, addr), captured: has(r.seen.captured, addr)}
	kinds := lingerKinds
	if r.seen.ownsNodePort(key, addr) {
		kinds = slices.Concat(kinds, nodePortKinds)
	}
	for _, kind := range kinds {
		if m := plan.MemberOf(kind, key); isMember(&r.seen, m) {
			l.members = append(l.members, m)
		}
	}
	if l.bound {
		l.members = append(l.members, ipsetutil.Member{
			Set: ipsetutil.IPVSIPs.Name(addr.Is6()), Entry: ipsetutil.Entry{Addr: addr},
		})
	}
	return lingering{
		members: append(l.members, plan.MemberOf(ipsetutil.Refuse, key)),
		bound:   l.bound, captured: l.captured,
	}
}

func isMember(p *picture, m ipsetutil.Member) bool {
	_, ok := p.member(m)
	return ok
}

// endLinger gives up what was kept: what nobody else wants is deleted in this pass.
// Where another Service claims the frontend now, connections go on as drains of its
// server.
func (r *Reconciler) endLinger(key ipvsutil.Key, work *ledger.Touched) {
	l := r.lingers.servers[key]
	delete(r.lingers.servers, key)
	work.Servers = set(work.Servers, key)
	for _, m := range l.members {
		release(r.lingers.members, m)
		work.Members = set(work.Members, m)
	}
	addr := key.Addr.Addr()
	if l.bound {
		release(r.lingers.bound, addr)
		work.Bound = set(work.Bound, addr)
	}
	if l.captured {
		release(r.lingers.captured, addr)
		work.Captured = set(work.Captured, addr)
	}
}

func release[K comparable](counts map[K]int, key K) {
	if counts[key]--; counts[key] <= 0 {
		delete(counts, key)
	}
}
