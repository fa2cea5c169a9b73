// Package ledger records what all Services claim together: who owns which
// frontend, who else wants it, and which desired values a change has touched. It
// is pure, like the plan that feeds it.
package ledger

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// Owner is a Service as far as a conflict needs it. Of two owners of one frontend
// the older has it; the name breaks a tie. The zero Owner is the node itself.
type Owner struct {
	Name    plan.ServiceName
	Created time.Time
}

// compare sorts the owner that wins first.
func (o Owner) compare(p Owner) int {
	return cmp.Or(
		o.Created.Compare(p.Created),
		compareNames(o.Name, p.Name),
	)
}

// compare sorts the claim that wins first: whoever may write externalIPs must not
// take over the ClusterIP of another Service, however young that is.
func (c claimant) compare(d claimant) int {
	switch {
	case c.frontend.ClusterIP && !d.frontend.ClusterIP:
		return -1
	case !c.frontend.ClusterIP && d.frontend.ClusterIP:
		return 1
	}
	return c.owner.compare(d.owner)
}

// Server is a virtual server with its real servers, as desired.
type Server struct {
	ipvsutil.VirtualServer
	// RealServers are sorted by address.
	RealServers []ipvsutil.RealServer
	// Serving and DrainTimeout say what becomes of a real server that left, see
	// plan.Frontend and plan.Service.
	Serving      []netip.AddrPort
	DrainTimeout *time.Duration
	// Owner is the Service that has the server.
	Owner plan.ServiceName
	// Protocol is that of the traffic; a firewall-mark server's key has none.
	Protocol ipvsutil.Protocol
	// Frontends are those that lead to a firewall-mark server; nil for others.
	Frontends []ipvsutil.Key
}

func (s Server) equal(o Server) bool {
	return s.VirtualServer == o.VirtualServer && slices.Equal(s.RealServers, o.RealServers) &&
		slices.Equal(s.Serving, o.Serving) && equalTimes(s.DrainTimeout, o.DrainTimeout)
}

func equalTimes(a, b *time.Duration) bool {
	return a == b || a != nil && b != nil && *a == *b
}

// Ledger holds the claims of all owners. It is not safe for concurrent use.
type Ledger struct {
	claims   map[plan.ServiceName]claims
	contests map[ipvsutil.Key][]claimant
	// contested holds the keys with more than one claimant.
	contested map[ipvsutil.Key]bool
	servers   map[ipvsutil.Key]Server
	members   map[ipsetutil.Member]holding
	bound     map[netip.Addr]int
	captured  map[netip.Addr]int
	health    map[plan.ServiceName]plan.HealthCheck
	// healthChanges are the Services whose health check changed.
	healthChanges map[plan.ServiceName]bool
	marks         *marks
	counts        Counts
	tracker       tracker
}

type claims struct {
	owner Owner
	plan.Claims
}

// claimant is one owner's claim of a frontend; the first of a contest wins. mark is
// that of its short circuit when the claim was made, zero for none.
type claimant struct {
	owner    Owner
	frontend plan.Frontend
	mark     uint32
	drain    *time.Duration
}

// holding counts who wants a member. Only members of the short circuit have a
// mark, and those have one holder: the owner of the frontend.
type holding struct {
	holders int
	mark    uint32
}

// New returns an empty ledger. The mark of a short circuit is markBase with an index
// in the lowest markBits; zero bits turn the short circuit off. A firewall-mark
// server takes every packet of the node with its mark, whoever set it: markBase
// holds a bit of ours, so that the small marks that others use are none of these.
func New(markBase uint32, markBits uint8) *Ledger {
	l := &Ledger{
		claims:    map[plan.ServiceName]claims{},
		contests:  map[ipvsutil.Key][]claimant{},
		contested: map[ipvsutil.Key]bool{},
		servers:   map[ipvsutil.Key]Server{},
		members:   map[ipsetutil.Member]holding{},
		bound:     map[netip.Addr]int{},
		captured:  map[netip.Addr]int{},
		health:    map[plan.ServiceName]plan.HealthCheck{},
		marks:     newMarks(markBase, markBits),
		counts:    Counts{Members: map[string]int{}},

		healthChanges: map[plan.ServiceName]bool{},
	}
	l.tracker.ledger = l
	return l
}

// Expect makes room in an empty ledger for so many Services, of one port each.
func (l *Ledger) Expect(services int) {
	if len(l.claims) > 0 {
		return
	}
	l.claims = make(map[plan.ServiceName]claims, services)
	l.contests = make(map[ipvsutil.Key][]claimant, services)
	l.servers = make(map[ipvsutil.Key]Server, services)
	l.members = make(map[ipsetutil.Member]holding, 3*services)
	l.bound = make(map[netip.Addr]int, services)
}

// Replace records what an owner claims now, in place of what it claimed before,
// and returns the keys whose desired value became another one.
func (l *Ledger) Replace(owner Owner, now plan.Claims) Touched {
	touched := newTouched()
	l.ReplaceInto(&touched, owner, now)
	return touched
}

// ReplaceInto is Replace that adds the keys to those of other changes; with nil they
// are not told, for whoever asks for All afterwards.
func (l *Ledger) ReplaceInto(touched *Touched, owner Owner, now plan.Claims) {
	t := l.tracker.start(touched == nil)
	before := l.claims[owner.Name]
	l.leaveShortCircuits(t, owner, before.ShortCircuits, now.ShortCircuits)
	led := ledFrontends(now)
	l.assignMarks(owner, now.ShortCircuits, led)
	l.enterFrontends(t, owner, before, now)
	l.enterShortCircuits(t, owner, now, led)
	count(l.bound, &t.bound, &l.counts.Bound, now.Bound, before.Bound)
	count(l.captured, &t.captured, &l.counts.Captured, now.Captured, before.Captured)
	l.countNoLocal(before.NoLocal, now.NoLocal)
	for _, m := range now.Members {
		l.hold(t, m, 0)
	}
	for _, m := range before.Members {
		l.release(t, m)
	}
	l.claims[owner.Name] = claims{owner, now}
	if isNothing(now) {
		delete(l.claims, owner.Name)
	}
	l.setHealth(owner.Name, now.HealthCheck)
	if touched != nil {
		t.into(touched)
	}
}

// Remove is Replace by nothing.
func (l *Ledger) Remove(name plan.ServiceName) Touched {
	touched := newTouched()
	l.RemoveInto(&touched, name)
	return touched
}

// RemoveInto is Remove that adds the keys to those of other changes.
func (l *Ledger) RemoveInto(touched *Touched, name plan.ServiceName) {
	l.ReplaceInto(touched, Owner{Name: name, Created: l.claims[name].owner.Created}, plan.Claims{})
}

func isNothing(c plan.Claims) bool {
	return len(c.Frontends) == 0 && len(c.ShortCircuits) == 0 && len(c.Members) == 0 &&
		len(c.Bound) == 0 && len(c.Captured) == 0 && c.HealthCheck.Port == 0
}

// enterFrontends replaces the owner's claims of frontends and settles each contest anew.
func (l *Ledger) enterFrontends(t *tracker, owner Owner, before claims, now plan.Claims) {
	var kept map[ipvsutil.Key]bool
	if len(before.Frontends) > 0 {
		kept = make(map[ipvsutil.Key]bool, len(now.Frontends))
	}
	for _, f := range now.Frontends {
		if kept != nil {
			kept[f.Server.Key] = true
		}
		claim := claimant{owner: owner, frontend: f, drain: now.DrainTimeout}
		if f.ShortCircuit {
			claim.mark = l.marks.of(markOwner{owner.Name, f.Port})
		}
		l.contest(t, f.Server.Key, owner.Name, &claim)
	}
	for _, f := range before.Frontends {
		if !kept[f.Server.Key] {
			l.contest(t, f.Server.Key, owner.Name, nil)
		}
	}
}

// contest replaces one owner's claim of a key (nil: takes it back). The winner's
// entries come in before those of the one before go, so that what both want stays.
func (l *Ledger) contest(t *tracker, key ipvsutil.Key, name plan.ServiceName, claim *claimant) {
	t.server(key)
	old := l.contests[key]
	now := make([]claimant, 0, len(old)+1)
	for _, c := range old {
		if c.owner.Name != name {
			now = append(now, c)
		}
	}
	if claim != nil {
		now = append(now, *claim)
		slices.SortFunc(now, claimant.compare)
	}
	if len(now) > 0 {
		winner := now[0]
		l.enter(t, winner)
		l.contests[key] = now
	} else {
		delete(l.contests, key)
		l.dropServer(key)
	}
	if len(old) > 0 {
		l.leave(t, old[0])
	}
	if len(now) > 1 {
		l.contested[key] = true
	} else {
		delete(l.contested, key)
	}
}

func (l *Ledger) enter(t *tracker, c claimant) {
	key := c.frontend.Server.Key
	l.putServer(key, Server{
		VirtualServer: c.frontend.Server, RealServers: c.frontend.RealServers,
		Serving: c.frontend.Serving, DrainTimeout: c.drain,
		Owner: c.owner.Name, Protocol: key.Protocol,
	})
	for _, m := range c.frontend.Members {
		l.hold(t, m, 0)
	}
	if c.mark != 0 {
		l.hold(t, c.shortCircuit(), c.mark)
	}
}

func (l *Ledger) leave(t *tracker, c claimant) {
	for _, m := range c.frontend.Members {
		l.release(t, m)
	}
	if c.mark != 0 {
		l.release(t, c.shortCircuit())
	}
}

// shortCircuit is the entry that leads clients on this node to the claimant's
// firewall-mark server.
func (c claimant) shortCircuit() ipsetutil.Member {
	return plan.MemberOf(ipsetutil.ShortCircuit, c.frontend.Server.Key)
}

// ledFrontends are the keys that lead to the short circuit of each port.
func ledFrontends(claims plan.Claims) map[plan.PortKey][]ipvsutil.Key {
	if len(claims.ShortCircuits) == 0 {
		return nil
	}
	led := map[plan.PortKey][]ipvsutil.Key{}
	for _, f := range claims.Frontends {
		if f.ShortCircuit {
			led[f.Port] = append(led[f.Port], f.Server.Key)
		}
	}
	return led
}

// assignMarks gives each short circuit its mark before any frontend refers to it.
func (l *Ledger) assignMarks(owner Owner, now []plan.ShortCircuit, led map[plan.PortKey][]ipvsutil.Key) {
	for _, s := range now {
		l.marks.assign(markOwner{owner.Name, s.Port}, led[s.Port])
	}
}

// enterShortCircuits records the firewall-mark servers.
func (l *Ledger) enterShortCircuits(t *tracker, owner Owner, now plan.Claims, led map[plan.PortKey][]ipvsutil.Key) {
	for _, s := range now.ShortCircuits {
		mark := l.marks.of(markOwner{owner.Name, s.Port})
		if mark == 0 {
			continue
		}
		s.Server.Key = ipvsutil.MarkKey(mark, s.Port.IPv6)
		t.server(s.Server.Key)
		l.putServer(s.Server.Key, Server{
			VirtualServer: s.Server, RealServers: s.RealServers, Owner: owner.Name,
			Serving: s.Serving, DrainTimeout: now.DrainTimeout,
			Protocol: s.Port.Protocol, Frontends: led[s.Port],
		})
	}
}

// leaveShortCircuits takes back the marks of those that ended. It comes first, so
// that those that begin can have them.
func (l *Ledger) leaveShortCircuits(t *tracker, owner Owner, before, now []plan.ShortCircuit) {
	if len(before) == 0 {
		return
	}
	kept := make(map[plan.PortKey]bool, len(now))
	for _, s := range now {
		kept[s.Port] = true
	}
	for _, s := range before {
		if kept[s.Port] {
			continue
		}
		if mark := l.marks.free(markOwner{owner.Name, s.Port}); mark != 0 {
			key := ipvsutil.MarkKey(mark, s.Port.IPv6)
			t.server(key)
			l.dropServer(key)
		}
	}
}

func (l *Ledger) hold(t *tracker, m ipsetutil.Member, mark uint32) {
	t.member(m)
	h := l.members[m]
	if h.holders++; h.holders == 1 {
		l.countMember(m, 1)
	}
	if mark != 0 {
		h.mark = mark
	}
	l.members[m] = h
}

func (l *Ledger) release(t *tracker, m ipsetutil.Member) {
	t.member(m)
	h := l.members[m]
	h.holders--
	if h.holders <= 0 {
		delete(l.members, m)
		l.countMember(m, -1)
		return
	}
	l.members[m] = h
}

// count adds one holder for each address wanted now, then takes away those of before.
func count(holders map[netip.Addr]int, touch *notes[netip.Addr, bool], sum *[2]int, now, before []netip.Addr) {
	for _, a := range now {
		if !touch.off && !touch.has(a) {
			touch.add(a, holders[a] > 0)
		}
		if holders[a]++; holders[a] == 1 {
			sum[family(a.Is6())]++
		}
	}
	for _, a := range before {
		if !touch.off && !touch.has(a) {
			touch.add(a, holders[a] > 0)
		}
		if holders[a]--; holders[a] <= 0 {
			delete(holders, a)
			sum[family(a.Is6())]--
		}
	}
}
