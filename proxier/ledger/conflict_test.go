package ledger

import (
	"slices"
	"testing"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

var contestedKey = key("203.0.113.1:80", ipvsutil.TCP)

// claiming is a claim of contestedKey whose scheduler and entry tell whose it is.
func claiming(scheduler string, kind ipsetutil.Kind, shortCircuit bool) plan.Claims {
	port := plan.PortKey{Name: scheduler, Protocol: ipvsutil.TCP}
	c := plan.Claims{Frontends: []plan.Frontend{{
		Server:       ipvsutil.VirtualServer{Key: contestedKey, Scheduler: scheduler},
		Members:      []ipsetutil.Member{plan.MemberOf(kind, contestedKey)},
		ShortCircuit: shortCircuit, Port: port,
	}}}
	if shortCircuit {
		c.ShortCircuits = []plan.ShortCircuit{{Port: port, Server: ipvsutil.VirtualServer{Scheduler: scheduler}}}
	}
	return c
}

func wantOwner(t *testing.T, l *Ledger, want Owner, scheduler string) {
	t.Helper()
	if s, _ := l.Server(contestedKey); s.Owner != want.Name || s.Scheduler != scheduler {
		t.Errorf("%v has %v with scheduler %q, want %v with %q", s.Owner, contestedKey, s.Scheduler, want.Name, scheduler)
	}
}

func wantMember(t *testing.T, l *Ledger, kind ipsetutil.Kind, want bool) {
	t.Helper()
	m := plan.MemberOf(kind, contestedKey)
	if _, ok := l.Member(m); ok != want {
		t.Errorf("entry %v is there: %v, want %v", m, ok, want)
	}
}

// TestOlderWins, whichever came first; the name breaks a tie.
func TestOlderWins(t *testing.T) {
	old, young := owner(3, 10), owner(0, 20)
	tieFirst, tieSecond := owner(0, 10), owner(1, 10)
	for _, test := range []struct {
		name          string
		winner, loser Owner
	}{
		{"age before name", old, young},
		{"name breaks a tie", tieFirst, tieSecond},
		{"namespace before name", owner(1, 10), owner(2, 10)},
	} {
		for _, winnerFirst := range []bool{true, false} {
			l := New(markBase, markBits)
			if winnerFirst {
				l.Replace(test.winner, claiming("lc", ipsetutil.ExternalIP, false))
			}
			l.Replace(test.loser, claiming("rr", ipsetutil.LoadBalancer, false))
			if !winnerFirst {
				wantOwner(t, l, test.loser, "rr")
				l.Replace(test.winner, claiming("lc", ipsetutil.ExternalIP, false))
			}
			wantOwner(t, l, test.winner, "lc")
			wantMember(t, l, ipsetutil.ExternalIP, true)
			wantMember(t, l, ipsetutil.LoadBalancer, false)
			conflicts := l.Conflicts()
			if len(conflicts) != 1 || conflicts[0].Key != contestedKey || conflicts[0].Winner != test.winner.Name ||
				!slices.Equal(conflicts[0].Losers, []plan.ServiceName{test.loser.Name}) {
				t.Errorf("%s: conflicts %+v", test.name, conflicts)
			}
		}
	}
}

// TestLoserTakesOver by itself, with its own values and entries, in one change.
func TestLoserTakesOver(t *testing.T) {
	old, young := owner(0, 10), owner(1, 20)
	l := New(markBase, markBits)
	l.Replace(old, claiming("lc", ipsetutil.ExternalIP, false))
	if touched := l.Replace(young, claiming("rr", ipsetutil.LoadBalancer, false)); touched.Len() != 0 {
		t.Errorf("the loser's claim touches %+v", touched)
	}
	touched := l.Remove(old.Name)
	wantOwner(t, l, young, "rr")
	wantMember(t, l, ipsetutil.ExternalIP, false)
	wantMember(t, l, ipsetutil.LoadBalancer, true)
	if len(touched.Servers) != 1 || len(touched.Members) != 2 {
		t.Errorf("taking over touches %+v, want the server and two entries", touched)
	}
	if c := l.Conflicts(); len(c) != 0 {
		t.Errorf("conflicts %+v after the winner went", c)
	}
}

// TestRecreatedLosesItsAge: a Service deleted and made anew is the younger.
func TestRecreatedLosesItsAge(t *testing.T) {
	l := New(markBase, markBits)
	l.Replace(owner(0, 10), claiming("lc", ipsetutil.ExternalIP, false))
	l.Replace(owner(1, 20), claiming("rr", ipsetutil.LoadBalancer, false))
	l.Replace(owner(0, 30), claiming("lc", ipsetutil.ExternalIP, false))
	wantOwner(t, l, owner(1, 20), "rr")
}

// TestLoserHasNoShortCircuit: while it loses, no entry leads to the loser's
// firewall-mark server; the entry and its mark are the winner's.
func TestLoserHasNoShortCircuit(t *testing.T) {
	old, young := owner(0, 10), owner(1, 20)
	entry := plan.MemberOf(ipsetutil.ShortCircuit, contestedKey)
	leadsTo := func(l *Ledger) plan.ServiceName {
		mark, _ := l.Member(entry)
		s, _ := l.Server(ipvsutil.MarkKey(mark, false))
		return s.Owner
	}

	l := New(markBase, markBits)
	l.Replace(old, claiming("lc", ipsetutil.ExternalIP, false))
	l.Replace(young, claiming("rr", ipsetutil.ExternalIPLocal, true))
	wantMember(t, l, ipsetutil.ShortCircuit, false)

	touched := l.Replace(old, claiming("lc", ipsetutil.ExternalIPLocal, true))
	if got := leadsTo(l); got != old.Name {
		t.Errorf("the entry leads to %v, want the winner", got)
	}
	if _, ok := touched.Members[entry]; !ok {
		t.Errorf("the winner's new entry is not touched: %+v", touched)
	}

	touched = l.Remove(old.Name)
	if got := leadsTo(l); got != young.Name {
		t.Errorf("after the winner went the entry leads to %v, want the loser", got)
	}
	if _, ok := touched.Members[entry]; !ok {
		t.Errorf("the entry's new mark is not touched: %+v", touched)
	}
}

// TestSharedEntryOfTwoFrontends: a NodePort's entry, which all its addresses share,
// stays until the last of them goes.
func TestSharedEntryOfTwoFrontends(t *testing.T) {
	first, second := key("192.0.2.11:30080", ipvsutil.TCP), key("192.0.2.12:30080", ipvsutil.TCP)
	entry := plan.MemberOf(ipsetutil.NodePortTCP, first)
	claims := func(keys ...ipvsutil.Key) (c plan.Claims) {
		for _, k := range keys {
			c.Frontends = append(c.Frontends, plan.Frontend{
				Server:  ipvsutil.VirtualServer{Key: k, Scheduler: "rr"},
				Members: []ipsetutil.Member{plan.MemberOf(ipsetutil.NodePortTCP, k)},
			})
		}
		return c
	}
	l := New(markBase, markBits)
	l.Replace(owner(0, 0), claims(first, second))
	if touched := l.Replace(owner(0, 0), claims(second)); len(touched.Members) != 0 {
		t.Errorf("one address went, and its port's entry %v is touched", touched.Members)
	}
	if _, ok := l.Member(entry); !ok {
		t.Errorf("%v went with the first of two addresses", entry)
	}
	l.Replace(owner(0, 0), claims())
	if _, ok := l.Member(entry); ok {
		t.Errorf("%v stays after the last address went", entry)
	}
}

// TestClusterIPWins: an older Service that names another's ClusterIP as externalIP
// does not get its traffic.
func TestClusterIPWins(t *testing.T) {
	l := New(markBase, markBits)
	at := key("10.96.0.9:80", ipvsutil.TCP)
	thief := plan.Frontend{Server: ipvsutil.VirtualServer{Key: at, Scheduler: "lc"}}
	own := plan.Frontend{Server: ipvsutil.VirtualServer{Key: at, Scheduler: "rr"}, ClusterIP: true}
	l.Replace(Owner{Name: plan.ServiceName{Namespace: "a", Name: "thief"}}, plan.Claims{Frontends: []plan.Frontend{thief}})
	owner := Owner{Name: plan.ServiceName{Namespace: "z", Name: "own"}, Created: time.Unix(1<<30, 0)}
	l.Replace(owner, plan.Claims{Frontends: []plan.Frontend{own}})
	if s, _ := l.Server(at); s.Owner != owner.Name {
		t.Errorf("%v has the address, want %v", s.Owner, owner.Name)
	}
}
