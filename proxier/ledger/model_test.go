package ledger

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// model is the ledger as one would say it, without any state but the claims: what
// is desired is found by looking at all of them.
type model map[Owner]plan.Claims

func (m model) replace(owner Owner, c plan.Claims) {
	m.remove(owner.Name)
	m[owner] = c
}

func (m model) remove(name plan.ServiceName) {
	maps.DeleteFunc(m, func(o Owner, _ plan.Claims) bool { return o.Name == name })
}

// owners in the order in which they win.
func (m model) owners() []Owner {
	return slices.SortedFunc(maps.Keys(m), func(a, b Owner) int {
		if !a.Created.Equal(b.Created) {
			return a.Created.Compare(b.Created)
		}
		return slices.Compare([]string{a.Name.Namespace, a.Name.Name}, []string{b.Name.Namespace, b.Name.Name})
	})
}

// text says what is desired, one line a thing, with the owner and port of a short
// circuit in place of its mark, which may be any.
func (m model) text() string {
	lines := map[string]bool{}
	taken := map[ipvsutil.Key]bool{}
	for _, o := range m.owners() {
		c := m[o]
		for _, f := range c.Frontends {
			if taken[f.Server.Key] {
				continue
			}
			taken[f.Server.Key] = true
			lines[serverText(f.Server, f.RealServers, o.Name)] = true
			for _, member := range f.Members {
				lines["set "+member.String()] = true
			}
			if f.ShortCircuit {
				member := plan.MemberOf(ipsetutil.ShortCircuit, f.Server.Key)
				lines[fmt.Sprintf("set %v -> %v", member, markOwner{o.Name, f.Port})] = true
			}
		}
		for _, s := range c.ShortCircuits {
			lines[shortCircuitText(markOwner{o.Name, s.Port}, s.Server, s.RealServers)] = true
		}
		for _, a := range c.Bound {
			lines["addr "+a.String()] = true
		}
		for _, a := range c.Captured {
			lines["route "+a.String()] = true
		}
		for _, member := range c.Members {
			lines["set "+member.String()] = true
		}
		if c.HealthCheck.Port != 0 {
			lines[fmt.Sprintf("health %v %v", o.Name, c.HealthCheck)] = true
		}
	}
	return sortedText(lines)
}

// conflicts says who loses what to whom.
func (m model) conflicts() string {
	claimants := map[ipvsutil.Key][]plan.ServiceName{}
	for _, o := range m.owners() {
		for _, f := range m[o].Frontends {
			claimants[f.Server.Key] = append(claimants[f.Server.Key], o.Name)
		}
	}
	lines := map[string]bool{}
	for k, names := range claimants {
		if len(names) > 1 {
			lines[fmt.Sprint(Conflict{Key: k, Winner: names[0], Losers: names[1:]})] = true
		}
	}
	return sortedText(lines)
}

func serverText(v ipvsutil.VirtualServer, reals []ipvsutil.RealServer, owner plan.ServiceName) string {
	return fmt.Sprint(v, " ", reals, " ", owner)
}

func shortCircuitText(o markOwner, v ipvsutil.VirtualServer, reals []ipvsutil.RealServer) string {
	v.Key = ipvsutil.Key{}
	return fmt.Sprint("short circuit ", o, " ", v.Scheduler, v.Flags, v.Persistence, " ", reals)
}

func sortedText(lines map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(lines)), "\n")
}

// text says of the ledger what model.text says.
func (l *Ledger) text() string {
	lines := map[string]bool{}
	byMark := map[ipvsutil.Key]markOwner{}
	for o, mark := range l.marks.given {
		byMark[ipvsutil.MarkKey(mark, o.port.IPv6)] = o
	}
	for k, s := range l.Servers() {
		if o, ok := byMark[k]; ok && k.Mark != 0 && o.service == s.Owner {
			lines[shortCircuitText(o, s.VirtualServer, s.RealServers)] = true
		} else {
			lines[serverText(s.VirtualServer, s.RealServers, s.Owner)] = true
		}
	}
	for member, mark := range l.Members() {
		line := "set " + member.String()
		if mark != 0 {
			line += fmt.Sprint(" -> ", byMark[ipvsutil.MarkKey(mark, member.Entry.Addr.Is6())])
		}
		lines[line] = true
	}
	for a := range l.BoundAddrs() {
		lines["addr "+a.String()] = true
	}
	for a := range l.CapturedAddrs() {
		lines["route "+a.String()] = true
	}
	for name, h := range l.HealthChecks() {
		lines[fmt.Sprintf("health %v %v", name, h)] = true
	}
	return sortedText(lines)
}

func (l *Ledger) conflictText() string {
	lines := map[string]bool{}
	for _, c := range l.Conflicts() {
		lines[fmt.Sprint(c)] = true
	}
	return sortedText(lines)
}

// snapshot is every desired value, for a comparison of before and after.
type snapshot struct {
	servers  map[ipvsutil.Key]string
	members  map[ipsetutil.Member]string
	bound    map[netip.Addr]string
	captured map[netip.Addr]string
}

func (l *Ledger) snapshot() snapshot {
	s := snapshot{
		map[ipvsutil.Key]string{}, map[ipsetutil.Member]string{}, map[netip.Addr]string{}, map[netip.Addr]string{},
	}
	for k, server := range l.Servers() {
		s.servers[k] = fmt.Sprint(server.VirtualServer, server.RealServers)
	}
	for m, mark := range l.Members() {
		s.members[m] = fmt.Sprint("mark ", mark)
	}
	for a := range l.BoundAddrs() {
		s.bound[a] = "bound"
	}
	for a := range l.CapturedAddrs() {
		s.captured[a] = "captured"
	}
	return s
}

// difference is what Touched should be.
func (s snapshot) difference(now snapshot) Touched {
	return Touched{
		Servers: differs(s.servers, now.servers), Members: differs(s.members, now.members),
		Bound: differs(s.bound, now.bound), Captured: differs(s.captured, now.captured),
	}
}

func differs[K comparable](a, b map[K]string) map[K]struct{} {
	keys := map[K]struct{}{}
	for k := range a {
		if a[k] != b[k] {
			keys[k] = struct{}{}
		}
	}
	for k := range b {
		if a[k] != b[k] {
			keys[k] = struct{}{}
		}
	}
	return keys
}
