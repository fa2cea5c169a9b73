package ledger

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// shortCircuit claims one frontend of each address with one short circuit for all.
func shortCircuit(addrs ...string) plan.Claims {
	var c plan.Claims
	for i, a := range addrs {
		k := key(a, ipvsutil.TCP)
		port := plan.PortKey{Protocol: ipvsutil.TCP, IPv6: k.IsIPv6()}
		c.Frontends = append(c.Frontends, plan.Frontend{
			Server: ipvsutil.VirtualServer{Key: k, Scheduler: "rr"}, Port: port, ShortCircuit: true,
		})
		if i == 0 {
			c.ShortCircuits = []plan.ShortCircuit{{Port: port, Server: ipvsutil.VirtualServer{Scheduler: "rr"}}}
		}
	}
	return c
}

func entry(addr string) ipsetutil.Entry {
	return plan.MemberOf(ipsetutil.ShortCircuit, key(addr, ipvsutil.TCP)).Entry
}

// mark is the mark of the entry of a frontend; zero when there is none.
func mark(l *Ledger, addr string) uint32 {
	m, _ := l.Member(plan.MemberOf(ipsetutil.ShortCircuit, key(addr, ipvsutil.TCP)))
	return m
}

func numbered(i int) Owner { return Owner{Name: plan.ServiceName{Namespace: "n", Name: fmt.Sprint(i)}} }

// TestMarkLayout: the base with index 1 and up, and the server has the same key.
func TestMarkLayout(t *testing.T) {
	l := New(0x100, 8)
	l.Replace(numbered(0), shortCircuit("203.0.113.1:80", "203.0.113.2:80"))
	l.Replace(numbered(1), shortCircuit("203.0.113.3:80"))
	if a, b, c := mark(l, "203.0.113.1:80"), mark(l, "203.0.113.2:80"), mark(l, "203.0.113.3:80"); a != 0x101 || b != a || c != 0x102 {
		t.Errorf("marks %#x %#x %#x, want 0x101 0x101 0x102", a, b, c)
	}
	s, ok := l.Server(ipvsutil.MarkKey(0x101, false))
	if !ok || s.Owner != numbered(0).Name || s.Protocol != ipvsutil.TCP || len(s.Frontends) != 2 {
		t.Errorf("server of mark 0x101: %+v, %v", s, ok)
	}
}

// TestFamiliesApart: each family counts for itself.
func TestFamiliesApart(t *testing.T) {
	l := New(0, 1) // one mark a family
	l.Replace(numbered(0), shortCircuit("203.0.113.1:80"))
	l.Replace(numbered(1), shortCircuit("[2001:db8::1]:80"))
	if a, b := mark(l, "203.0.113.1:80"), mark(l, "[2001:db8::1]:80"); a != 1 || b != 1 {
		t.Errorf("marks %d and %d, want 1 in both families", a, b)
	}
}

// TestMarkStays as long as the short circuit does, whatever else changes.
func TestMarkStays(t *testing.T) {
	l := New(markBase, markBits)
	l.Replace(numbered(0), shortCircuit("203.0.113.1:80"))
	was := mark(l, "203.0.113.1:80")
	l.Replace(numbered(1), shortCircuit("203.0.113.2:80"))
	touched := l.Replace(numbered(0), shortCircuit("203.0.113.1:80", "203.0.113.9:80"))
	if a, b := mark(l, "203.0.113.1:80"), mark(l, "203.0.113.9:80"); a != was || b != was {
		t.Errorf("marks %#x and %#x, want %#x", a, b, was)
	}
	if _, ok := touched.Members[plan.MemberOf(ipsetutil.ShortCircuit, key("203.0.113.1:80", ipvsutil.TCP))]; ok {
		t.Errorf("an entry that did not change is touched")
	}
}

// TestMarksExhausted: who comes too late is local-only and named, has no entry that
// leads nowhere, and gets the next mark that is free.
func TestMarksExhausted(t *testing.T) {
	l := New(0, 2) // marks 1 to 3
	addr := func(i int) string { return fmt.Sprintf("203.0.113.%d:80", i) }
	for i := range 5 {
		l.Replace(numbered(i), shortCircuit(addr(i)))
	}
	if got := []uint32{mark(l, addr(0)), mark(l, addr(1)), mark(l, addr(2)), mark(l, addr(3)), mark(l, addr(4))}; !slices.Equal(got, []uint32{1, 2, 3, 0, 0}) {
		t.Errorf("marks %v, want 1 2 3 and two without", got)
	}
	if _, ok := l.Server(key(addr(3), ipvsutil.TCP)); !ok {
		t.Errorf("%s has no mark, and no server either", addr(3))
	}
	if _, ok := l.Member(plan.MemberOf(ipsetutil.ShortCircuit, key(addr(3), ipvsutil.TCP))); ok {
		t.Errorf("%s has no mark, but an entry", addr(3))
	}
	want := []plan.ServiceName{numbered(3).Name, numbered(4).Name}
	if got := l.LocalOnly(); !slices.Equal(got, want) {
		t.Errorf("local-only are %v, want %v", got, want)
	}
	l.Remove(numbered(1).Name)
	l.Remove(numbered(4).Name)
	l.Replace(numbered(3), shortCircuit(addr(3)))
	if got := mark(l, addr(3)); got != 2 {
		t.Errorf("mark %d after mark 2 came free, want that", got)
	}
	if got := l.LocalOnly(); len(got) != 0 {
		t.Errorf("local-only are %v, want none", got)
	}
}

// TestLocalOnlyOnce: a Service is named once, however many of its ports lack a mark.
func TestLocalOnlyOnce(t *testing.T) {
	l := New(0, 1)
	l.Replace(numbered(0), shortCircuit("203.0.113.1:80"))
	c := shortCircuit("203.0.113.2:80")
	other := renamed(shortCircuit("203.0.113.2:81"), "other")
	c.Frontends = append(c.Frontends, other.Frontends...)
	c.ShortCircuits = append(c.ShortCircuits, other.ShortCircuits...)
	l.Replace(numbered(1), c)
	if got := l.LocalOnly(); !slices.Equal(got, []plan.ServiceName{numbered(1).Name}) {
		t.Errorf("local-only are %v, want %v once", got, numbered(1).Name)
	}
}

// renamed gives the one port of claims another name.
func renamed(c plan.Claims, name string) plan.Claims {
	c.Frontends[0].Port.Name, c.ShortCircuits[0].Port.Name = name, name
	return c
}

// TestMarkFreedByTheSameChange serves it, when it is the last; what is equal
// afterwards is not touched.
func TestMarkFreedByTheSameChange(t *testing.T) {
	l := New(0, 1)
	l.Replace(numbered(0), shortCircuit("203.0.113.1:80"))
	touched := l.Replace(numbered(0), renamed(shortCircuit("203.0.113.1:80"), "same"))
	if touched.Len() != 0 {
		t.Errorf("touched %+v, but only the port's name is another", touched)
	}

	other := renamed(shortCircuit("203.0.113.1:80"), "other")
	other.ShortCircuits[0].Server.Scheduler = "lc"
	touched = l.Replace(numbered(0), other)
	s, ok := l.Server(ipvsutil.MarkKey(1, false))
	if !ok || s.Scheduler != "lc" || mark(l, "203.0.113.1:80") != 1 {
		t.Errorf("server of mark 1: %+v, %v; entry's mark %d", s, ok, mark(l, "203.0.113.1:80"))
	}
	if _, ok := touched.Servers[s.Key]; !ok || len(touched.Servers) != 1 || len(touched.Members) != 0 {
		t.Errorf("touched %+v, want the server of mark 1 alone", touched)
	}
}

// TestShortCircuitAlone: also one without any frontend goes with its Service.
func TestShortCircuitAlone(t *testing.T) {
	l := New(0, 4)
	l.Replace(numbered(0), plan.Claims{ShortCircuits: shortCircuit("203.0.113.1:80").ShortCircuits})
	if n := len(l.All().Servers); n != 1 {
		t.Errorf("%d servers, want the one of the mark", n)
	}
	l.Remove(numbered(0).Name)
	if err := l.checkEmpty(); err != nil {
		t.Error(err)
	}
}

// TestNoMarks: zero bits turn the short circuit off, and that is no lack.
func TestNoMarks(t *testing.T) {
	l := New(0, 0)
	l.Replace(numbered(0), shortCircuit("203.0.113.1:80"))
	if got := mark(l, "203.0.113.1:80"); got != 0 || len(l.LocalOnly()) != 0 || len(l.All().Servers) != 1 {
		t.Errorf("mark %d, local-only %v, servers %v", got, l.LocalOnly(), l.All().Servers)
	}
}

// TestAdoptedMarks are kept for the frontends that bear them, and given to no one
// else until every Service was planned.
func TestAdoptedMarks(t *testing.T) {
	l := New(8, 3) // marks 9 to 15
	l.AdoptMarks(false, map[ipsetutil.Entry]uint32{
		entry("203.0.113.1:80"): 9, entry("203.0.113.2:80"): 12,
		entry("203.0.113.4:80"): 3,        // not of this layout
		entry("203.0.113.5:80"): 8 | 1<<4, // nor this
		entry("203.0.113.6:80"): 0,
	})
	l.AdoptMarks(true, map[ipsetutil.Entry]uint32{entry("[2001:db8::1]:80"): 11})

	l.Replace(numbered(0), shortCircuit("203.0.113.9:80")) // new: neither 9 nor 12
	l.Replace(numbered(1), shortCircuit("203.0.113.3:80", "203.0.113.2:80"))
	l.Replace(numbered(2), shortCircuit("[2001:db8::1]:80"))
	l.Replace(numbered(3), shortCircuit("203.0.113.4:80"))
	l.Replace(numbered(4), shortCircuit("203.0.113.5:80"))
	for addr, want := range map[string]uint32{
		"203.0.113.9:80": 10, "203.0.113.3:80": 12, "203.0.113.2:80": 12, "[2001:db8::1]:80": 11,
		"203.0.113.4:80": 11, "203.0.113.5:80": 13,
	} {
		if got := mark(l, addr); got != want {
			t.Errorf("%s has mark %d, want %d", addr, got, want)
		}
	}
	l.Replace(numbered(5), shortCircuit("203.0.113.10:80"))
	l.Replace(numbered(6), shortCircuit("203.0.113.11:80"))
	l.Replace(numbered(7), shortCircuit("203.0.113.12:80"))
	if got := mark(l, "203.0.113.12:80"); got != 0 {
		t.Errorf("mark %d is given, but only the reserved 9 is left", got)
	}
	l.ForgetAdopted()
	l.Replace(numbered(7), shortCircuit("203.0.113.12:80"))
	if got := mark(l, "203.0.113.12:80"); got != 9 {
		t.Errorf("mark %d after the first plan, want 9, which nobody claimed", got)
	}
}

// TestAdoptedTwice: of two frontends whose entries bear one mark, as no ledger
// leaves them, the second gets another.
func TestAdoptedTwice(t *testing.T) {
	l := New(0, 4)
	l.AdoptMarks(false, map[ipsetutil.Entry]uint32{entry("203.0.113.1:80"): 5, entry("203.0.113.2:80"): 5})
	l.Replace(numbered(0), shortCircuit("203.0.113.1:80"))
	l.Replace(numbered(1), shortCircuit("203.0.113.2:80"))
	if a, b := mark(l, "203.0.113.1:80"), mark(l, "203.0.113.2:80"); a != 5 || b == 5 || b == 0 {
		t.Errorf("marks %d and %d, want 5 and another", a, b)
	}
}

// TestMarksAreNotReusedAtOnce: packets and entries of the one before may be on
// their way, so the next short circuit gets a number that rested.
func TestMarksAreNotReusedAtOnce(t *testing.T) {
	l := New(0, 4)
	l.Replace(numbered(0), shortCircuit("203.0.113.1:80"))
	l.Remove(numbered(0).Name)
	l.Replace(numbered(1), shortCircuit("203.0.113.2:80"))
	if got := mark(l, "203.0.113.2:80"); got != 2 {
		t.Errorf("mark %d right after 1 came free, want 2", got)
	}
}

// TestDump speaks the language of the doubles.
func TestDump(t *testing.T) {
	l := New(0, 4)
	if got := l.Dump(); got != "" {
		t.Errorf("an empty ledger dumps %q", got)
	}
	c := shortCircuit("203.0.113.1:80")
	c.Frontends[0].RealServers = []ipvsutil.RealServer{{Addr: netip.MustParseAddrPort("10.244.0.1:8080"), Weight: 1}}
	c.Bound, c.Captured = sharedAddrs[:1], sharedAddrs[1:2]
	l.Replace(numbered(0), c)
	want := `addr 10.96.0.1
route 203.0.113.1
rs 203.0.113.1:80/tcp 10.244.0.1:8080 w1
set KIPVS-SHORT-CIRCUIT 203.0.113.1,tcp:80
vs 203.0.113.1:80/tcp rr
vs fwm 1 (IPv4) rr
`
	if got := l.Dump(); got != want {
		t.Errorf("dump\n%swant\n%s", got, want)
	}
}

// TestMerge adds keys, to nothing as well.
func TestMerge(t *testing.T) {
	l := New(0, 4)
	var all Touched
	all.Merge(l.Replace(numbered(0), shortCircuit("203.0.113.1:80")))
	first := all.Len()
	all.Merge(l.Replace(numbered(1), plan.Claims{Bound: sharedAddrs, Captured: sharedAddrs}))
	if first != 3 || all.Len() != 9 {
		t.Errorf("merged %d, then %d keys, want 3 and 9", first, all.Len())
	}
}
