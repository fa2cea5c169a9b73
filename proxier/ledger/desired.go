package ledger

import (
	"cmp"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// Server returns the desired server of a key.
func (l *Ledger) Server(key ipvsutil.Key) (Server, bool) {
	s, ok := l.servers[key]
	return s, ok
}

// Servers ranges over all desired servers, in no order.
func (l *Ledger) Servers() iter.Seq2[ipvsutil.Key, Server] { return maps.All(l.servers) }

// Member tells whether a member is desired, and its mark.
func (l *Ledger) Member(m ipsetutil.Member) (mark uint32, ok bool) {
	h, ok := l.members[m]
	return h.mark, ok
}

// Members ranges over all desired members and their marks, in no order.
func (l *Ledger) Members() iter.Seq2[ipsetutil.Member, uint32] {
	return func(yield func(ipsetutil.Member, uint32) bool) {
		for m, h := range l.members {
			if !yield(m, h.mark) {
				return
			}
		}
	}
}

// Bound tells whether an address is wanted on the device.
func (l *Ledger) Bound(a netip.Addr) bool { return l.bound[a] > 0 }

// BoundAddrs ranges over all addresses wanted on the device, in no order.
func (l *Ledger) BoundAddrs() iter.Seq[netip.Addr] { return maps.Keys(l.bound) }

// Captured tells whether an address is wanted in the capture table.
func (l *Ledger) Captured(a netip.Addr) bool { return l.captured[a] > 0 }

// CapturedAddrs ranges over all addresses wanted in the capture table, in no order.
func (l *Ledger) CapturedAddrs() iter.Seq[netip.Addr] { return maps.Keys(l.captured) }

// All returns every desired key.
func (l *Ledger) All() Touched {
	t := Touched{
		Servers: make(map[ipvsutil.Key]struct{}, len(l.servers)), Members: make(map[ipsetutil.Member]struct{}, len(l.members)),
		Bound: make(map[netip.Addr]struct{}, len(l.bound)), Captured: make(map[netip.Addr]struct{}, len(l.captured)),
	}
	for key := range l.servers {
		t.Servers[key] = struct{}{}
	}
	for m := range l.members {
		t.Members[m] = struct{}{}
	}
	for a := range l.bound {
		t.Bound[a] = struct{}{}
	}
	for a := range l.captured {
		t.Captured[a] = struct{}{}
	}
	return t
}

// Claimed returns every key that an owner's claims lead to, also those of frontends
// that another owner has.
func (l *Ledger) Claimed(name plan.ServiceName) Touched {
	t := newTouched()
	c := l.claims[name]
	for _, f := range c.Frontends {
		key := f.Server.Key
		t.Servers[key] = struct{}{}
		for _, m := range f.Members {
			t.Members[m] = struct{}{}
		}
		if f.ShortCircuit {
			t.Members[plan.MemberOf(ipsetutil.ShortCircuit, key)] = struct{}{}
		}
	}
	for _, s := range c.ShortCircuits {
		if mark := l.marks.of(markOwner{name, s.Port}); mark != 0 {
			t.Servers[ipvsutil.MarkKey(mark, s.Port.IPv6)] = struct{}{}
		}
	}
	for _, m := range c.Members {
		t.Members[m] = struct{}{}
	}
	for _, a := range c.Bound {
		t.Bound[a] = struct{}{}
	}
	for _, a := range c.Captured {
		t.Captured[a] = struct{}{}
	}
	return t
}

// HealthCheck returns the health check of a Service; the zero value when it has none.
func (l *Ledger) HealthCheck(name plan.ServiceName) plan.HealthCheck { return l.health[name] }

// HealthChecks returns the health checks of all Services that have one.
func (l *Ledger) HealthChecks() map[plan.ServiceName]plan.HealthCheck { return maps.Clone(l.health) }

// Names returns the Services that claim something, sorted; the node is none.
func (l *Ledger) Names() []plan.ServiceName {
	names := slices.SortedFunc(maps.Keys(l.claims), compareNames)
	if len(names) > 0 && names[0] == (plan.ServiceName{}) {
		return names[1:]
	}
	return names
}

// LocalOnly returns the Services with a frontend that wants the short circuit and
// has none, since all marks of its family are taken: clients on this node reach
// only the endpoints on it. Once marks are free, Replace gives them one.
func (l *Ledger) LocalOnly() []plan.ServiceName {
	names := make([]plan.ServiceName, 0, len(l.marks.lacking))
	for owner := range l.marks.lacking {
		names = append(names, owner.service)
	}
	slices.SortFunc(names, compareNames)
	return slices.Compact(names)
}

func compareNames(a, b plan.ServiceName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// Promotable returns those of LocalOnly for which a mark is free by now: claiming
// again gives it to them. Sorted; nil while all marks are taken.
func (l *Ledger) Promotable() []plan.ServiceName {
	var names []plan.ServiceName
	for owner := range l.marks.lacking {
		if l.marks.hasFree(owner.port.IPv6) {
			names = append(names, owner.service)
		}
	}
	slices.SortFunc(names, compareNames)
	return slices.Compact(names)
}

// Conflict is a frontend that several Services claim. Losers are sorted in the
// order in which they would take over.
type Conflict struct {
	Key    ipvsutil.Key
	Winner plan.ServiceName
	Losers []plan.ServiceName
}

// Conflicts returns all conflicts, sorted by key.
func (l *Ledger) Conflicts() []Conflict {
	var conflicts []Conflict
	for key := range l.contested {
		contest := l.contests[key]
		c := Conflict{Key: key, Winner: contest[0].owner.Name}
		for _, loser := range contest[1:] {
			c.Losers = append(c.Losers, loser.owner.Name)
		}
		conflicts = append(conflicts, c)
	}
	slices.SortFunc(conflicts, func(a, b Conflict) int { return a.Key.Compare(b.Key) })
	return conflicts
}

// Dump returns the desired state in sorted lines, the language that the doubles
// and the kernel speak too; the empty text when nothing is desired.
func (l *Ledger) Dump() string {
	var lines []string
	for _, s := range l.servers {
		lines = append(lines, s.VirtualServer.String())
		for _, r := range s.RealServers {
			lines = append(lines, "rs "+s.Key.String()+" "+r.String())
		}
	}
	for m := range l.members {
		lines = append(lines, "set "+m.String())
	}
	for a := range l.bound {
		lines = append(lines, "addr "+a.String())
	}
	for a := range l.captured {
		lines = append(lines, "route "+a.String())
	}
	slices.Sort(lines)
	var b strings.Builder
	for _, line := range lines {
		b.WriteString(line)
		b.WriteByte('\n')
	}
	return b.String()
}
