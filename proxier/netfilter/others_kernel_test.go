//go:build kernel

package netfilter

import (
	"slices"
	"strings"
	"testing"
)

// TestTablesOfNFTablesMode go whole, with what is hooked and what refers to what in them;
// tables of others stay.
func TestTablesOfNFTablesMode(t *testing.T) {
	newNamespace(t)
	const table = `table %s kube-proxy {
	chain service { accept; }
	map services { type inet_service : verdict; elements = { 80 : goto service }; }
	chain nat-prerouting { type nat hook prerouting priority dstnat; tcp dport vmap @services; }
}
add table %s mine
add table inet kube-proxy
`
	for _, family := range []string{"ip", "ip6"} {
		command(t, strings.ReplaceAll(table, "%s", family), "nft", "-f", "-")
	}
	if got, want := OtherTables(), []string{"ip kube-proxy", "ip6 kube-proxy"}; !slices.Equal(got, want) {
		t.Fatalf("tables %q, want %q", got, want)
	}
	for _, want := range []bool{true, false} {
		if removed, err := (Others{}).Remove(t.Context()); removed != want || err != nil {
			t.Errorf("removed %v, %v, want %v", removed, err, want)
		}
	}
	got := strings.Fields(command(t, "", "nft", "list", "tables"))
	if want := strings.Fields("table ip mine table inet kube-proxy table ip6 mine"); !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
	if err := deleteTable("ip kube-proxy"); err != nil {
		t.Errorf("a missing one: %v", err)
	}
}

// TestServingOfIPTablesMode: only where requests are led to chains of its Services.
func TestServingOfIPTablesMode(t *testing.T) {
	eachBackend(t, func(t *testing.T, h *host) {
		r := h.rules()
		wantServing := func(want bool, when string) {
			t.Helper()
			if got, err := r.Others().Serving(t.Context()); got != want || err != nil {
				t.Errorf("%s: %v, %v", when, got, err)
			}
		}
		wantServing(false, "nothing there")
		h.ensure(r, true)
		wantServing(false, "ours")
		h.restore(true, "*nat\n:KUBE-SERVICES - [0:0]\n:KUBE-SVC-A - [0:0]\n-A KUBE-SERVICES -d fd96::1 -j KUBE-SVC-A\nCOMMIT\n")
		wantServing(true, "IPv6 of iptables mode")
		h.ensure(r, true)
		wantServing(false, "ours again")
		h.restore(false, "*nat\n:KUBE-SVC-A - [0:0]\nCOMMIT\n")
		wantServing(false, "a chain that nothing leads to")
	})
}
