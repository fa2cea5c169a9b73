package netfilter

import (
	"strings"
	"testing"
)

func TestCompareTextFindsAReplacedRule(t *testing.T) {
	for _, ipv6 := range []bool{false, true} {
		rs := Render(podNetwork(), ipv6)
		l := saved(t, rs.String())
		rules := l[tableFilter].chains["KIPVS-NEW"]
		rules[1] += " --reject-with icmp-port-unreachable" // as it is printed
		if found := rs.compareText(l); found != nil {
			t.Errorf("found %q", found)
		}
		rules[2] = "-j RETURN"
		found := rs.compareText(l)
		if len(found) != 1 || !strings.Contains(found[0], "rule 3 of chain KIPVS-NEW") {
			t.Errorf("found %q", found)
		}
	}
}

// TestRenderAs: the reader need not know what the writer's host could do.
func TestRenderAs(t *testing.T) {
	flags := podNetwork()
	wrote := flags
	wrote.IPVSMatch, wrote.RandomFully = !flags.IPVSMatch, !flags.RandomFully
	if got, want := renderAs(flags, false, Render(wrote, false).Stamp).Stamp, Render(wrote, false).Stamp; got != want {
		t.Errorf("rendered %s, want %s", got, want)
	}
	other := flags
	other.MasqueradeAll = !flags.MasqueradeAll
	if got, want := renderAs(flags, false, Render(other, false).Stamp).Stamp, Render(flags, false).Stamp; got != want {
		t.Errorf("rendered %s for other choices, want %s", got, want)
	}
}

func TestPolicies(t *testing.T) {
	got := policies("*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n:KUBE-FORWARD - [0:0]\nCOMMIT\n*nat\n:INPUT ACCEPT [0:0]\n")
	if len(got) != 3 || got["filter FORWARD"] != "DROP" || got["nat INPUT"] != "ACCEPT" {
		t.Errorf("got %v", got)
	}
}
