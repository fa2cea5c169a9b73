package ledger

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// TestPromotable: a mark that came free is for those who lack one, in its family.
func TestPromotable(t *testing.T) {
	l := New(0, 1) // one mark a family
	l.Replace(numbered(0), shortCircuit("203.0.113.1:80"))
	l.Replace(numbered(1), shortCircuit("203.0.113.2:80"))
	if got := l.Promotable(); got != nil {
		t.Errorf("while all are taken: %v", got)
	}
	l.Remove(numbered(0).Name)
	if got := l.Promotable(); !slices.Equal(got, []plan.ServiceName{numbered(1).Name}) {
		t.Errorf("after one came free: %v", got)
	}
	l.Replace(numbered(1), shortCircuit("203.0.113.2:80"))
	if got := l.Promotable(); got != nil || mark(l, "203.0.113.2:80") != 1 {
		t.Errorf("after it was given: %v, mark %d", got, mark(l, "203.0.113.2:80"))
	}
}

// TestClaimed: everything that an owner's claims lead to, won or lost.
func TestClaimed(t *testing.T) {
	l := New(0, 8)
	c := shortCircuit("203.0.113.1:80")
	c.Frontends[0].Members = []ipsetutil.Member{plan.MemberOf(ipsetutil.LoadBalancer, key("203.0.113.1:80", ipvsutil.TCP))}
	c.Members = []ipsetutil.Member{{Set: ipsetutil.IPVSIPs.Name(false), Entry: ipsetutil.Entry{Addr: netip.MustParseAddr("10.96.0.1")}}}
	c.Bound, c.Captured = []netip.Addr{netip.MustParseAddr("10.96.0.1")}, []netip.Addr{netip.MustParseAddr("203.0.113.1")}
	l.Replace(numbered(1), c)
	got, want := l.Claimed(numbered(1).Name), l.All()
	if got.Len() != want.Len() || len(got.Servers) != 2 || len(got.Members) != 3 {
		t.Errorf("claimed %+v, all %+v", got, want)
	}
	l.Replace(numbered(0), shortCircuit("203.0.113.1:80")) // the older one by name wins
	if again := l.Claimed(numbered(1).Name); again.Len() != got.Len() {
		t.Errorf("after it was lost: %+v", again)
	}
	if none := l.Claimed(numbered(7).Name); none.Len() != 0 {
		t.Errorf("of nobody: %+v", none)
	}
}

// TestNoLocal adds up, and forgets who goes.
func TestNoLocal(t *testing.T) {
	l := New(0, 0)
	with := func(internal, external [2]int) plan.Claims {
		c := shortCircuit("203.0.113.1:80")
		c.NoLocal = plan.NoLocal{Internal: internal, External: external}
		return c
	}
	l.Replace(numbered(0), with([2]int{1, 2}, [2]int{0, 3}))
	l.Replace(numbered(1), with([2]int{4, 0}, [2]int{5, 0}))
	if got, want := l.Counts().NoLocal, (plan.NoLocal{Internal: [2]int{5, 2}, External: [2]int{5, 3}}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	l.Replace(numbered(0), with([2]int{1, 0}, [2]int{}))
	l.Remove(numbered(1).Name)
	if got, want := l.Counts().NoLocal, (plan.NoLocal{Internal: [2]int{1, 0}}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestWhatBecomesOfRealServersThatLeft touches the server too: its drains depend on it.
func TestWhatBecomesOfRealServersThatLeft(t *testing.T) {
	l := New(0, 0)
	k := key("10.96.0.1:53", ipvsutil.UDP)
	claims := func(drain *time.Duration, serving ...string) plan.Claims {
		f := plan.Frontend{Server: ipvsutil.VirtualServer{Key: k, Scheduler: "rr"}}
		for _, s := range serving {
			f.Serving = append(f.Serving, netip.MustParseAddrPort(s))
		}
		return plan.Claims{Frontends: []plan.Frontend{f}, DrainTimeout: drain}
	}
	minute, hour, also := time.Minute, time.Hour, time.Minute
	l.Replace(numbered(1), claims(&minute, "10.244.0.1:53"))
	for i, c := range []struct {
		now     plan.Claims
		touched int
	}{
		{claims(&also, "10.244.0.1:53"), 0},
		{claims(&hour, "10.244.0.1:53"), 1},
		{claims(nil, "10.244.0.1:53"), 1},
		{claims(nil, "10.244.0.1:53", "10.244.0.2:53"), 1},
		{claims(nil), 1},
		{claims(nil), 0},
	} {
		if got := len(l.Replace(numbered(1), c.now).Servers); got != c.touched {
			t.Errorf("change %d: %d servers touched, want %d", i, got, c.touched)
		}
		if s, _ := l.Server(k); !equalTimes(s.DrainTimeout, c.now.DrainTimeout) || len(s.Serving) != len(c.now.Frontends[0].Serving) {
			t.Errorf("change %d: %+v", i, s)
		}
	}
}
