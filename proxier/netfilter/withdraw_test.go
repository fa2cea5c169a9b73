package netfilter

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// foreignLines are what others have beside us.
var foreignLines = []string{"filter INPUT -p tcp -j ACCEPT", "nat OUTPUT -d 192.0.2.1/32 -j DOCKER"}

func TestWithdrawLeavesNothingOfOurs(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		rs := Render(podNetwork(), ipv6)
		var w Withdrawal
		input := rs.withdraw(saved(t, rs.String(), foreignLines...), LeaveNothing, &w)
		chains, jumps := 0, 0
		for _, table := range rs.Tables {
			chains += len(table.Chains)
			jumps += len(table.Jumps)
			for _, c := range table.Chains {
				if !strings.Contains(input, "\n-F "+c.Name+"\n") || !strings.Contains(input, "\n-X "+c.Name+"\n") {
					t.Errorf("chain %s of %s does not go", c.Name, table.Name)
				}
			}
		}
		if got := strings.Count(input, "\n-D "); got != jumps || len(w.Removed) != chains || w.Kept != nil || w.Rewritten != nil {
			t.Errorf("%d of %d jumps and %d of %d chains go; kept %q", got, jumps, len(w.Removed), chains, w.Kept)
		}
		if strings.Contains(input, "DOCKER") || strings.Contains(input, "-D INPUT -p tcp") {
			t.Errorf("rules of others go:\n%s", input)
		}
	}
}

func TestWithdrawOfNothingIsEmpty(t *testing.T) {
	rs := Render(podNetwork(), false)
	for _, leave := range []Leave{LeaveNothing, LeaveToKubeProxy} {
		var w Withdrawal
		l := parseListing("*filter\n:INPUT ACCEPT [0:0]\n:cali-INPUT - [0:0]\n-A INPUT -j cali-INPUT\nCOMMIT\n")
		if input := rs.withdraw(l, leave, &w); input != "" || w.Removed != nil || w.Kept != nil {
			t.Errorf("input %q, %+v", input, w)
		}
	}
}

// TestWithdrawBesideIPTablesMode: chains that kube-proxy's iptables mode has taken
// over carry its traffic now.
func TestWithdrawBesideIPTablesMode(t *testing.T) {
	rs := Render(podNetwork(), false)
	l := saved(t, rs.String())
	for table, chains := range sharedWithIPTables {
		for _, chain := range chains {
			l[table].chains[chain] = []string{"-j RETURN"}
		}
	}
	l[tableNAT].chains["KUBE-SVC-A"] = []string{"-j KUBE-MARK-MASQ"}
	var w Withdrawal
	input := rs.withdraw(l, LeaveNothing, &w)
	for _, chain := range []string{"KUBE-SERVICES", "KUBE-POSTROUTING", "KUBE-MARK-MASQ", "KUBE-FORWARD", "KUBE-PROXY-FIREWALL", "KUBE-SVC-A"} {
		if strings.Contains(input, chain+"\n") {
			t.Errorf("%s is touched:\n%s", chain, input)
		}
	}
	if !strings.Contains(input, "-X KIPVS-FRONTENDS\n") || !strings.Contains(input, "-X KUBE-LOAD-BALANCER\n") || len(w.Kept) != 5 {
		t.Errorf("kept %q:\n%s", w.Kept, input)
	}
}

// TestWithdrawToKubeProxy keeps what its ipvs mode has, and what is kept names
// nothing that goes.
func TestWithdrawToKubeProxy(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		l := saved(t, Render(podNetwork(), ipv6).String())
		var w Withdrawal
		// Who cleans up knows no pod network: clients outside are masqueraded all the same.
		input := Render(DefaultFlags(), ipv6).withdraw(l, LeaveToKubeProxy, &w)
		if !strings.Contains(input, "-A KUBE-SERVICES ! -s ") {
			t.Errorf("clients outside are masqueraded no more:\n%s", input)
		}
		for line := range strings.Lines(input) {
			f := strings.Fields(line)
			if f[0] == "-X" && !strings.HasPrefix(f[1], "KIPVS-") || f[0] == "-A" && strings.Contains(line, "KIPVS-") {
				t.Errorf("wrong line %q", line)
			}
			if f[0] == "-D" && !strings.HasPrefix(f[len(f)-1], "KIPVS-") {
				t.Errorf("a jump to kube-proxy's chains goes: %q", line)
			}
		}
		if diff := cmp.Diff([]string{familyName(ipv6) + " nat KUBE-SERVICES"}, w.Rewritten); diff != "" {
			t.Error(diff)
		}
		if !strings.Contains(input, "-A KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT\n") {
			t.Errorf("NodePorts lose their rule:\n%s", input)
		}
	}
}

// TestWithdrawKeepsWhatOthersLeadTo: deleting such a chain would fail, and with it
// the whole restore.
func TestWithdrawKeepsWhatOthersLeadTo(t *testing.T) {
	rs := Render(podNetwork(), false)
	l := saved(t, rs.String())
	l[tableNAT].chains["CNI-HOSTPORT-SETMARK"] = []string{"-j KUBE-MARK-MASQ"}
	var w Withdrawal
	input := rs.withdraw(l, LeaveNothing, &w)
	if strings.Contains(input, "-X KUBE-MARK-MASQ") || len(w.Kept) != 1 || slices.Contains(w.Removed, "IPv4 nat KUBE-MARK-MASQ") {
		t.Errorf("kept %q:\n%s", w.Kept, input)
	}
}
