//go:build kernel

package netfilter

import (
	"context"
	"strings"
	"testing"
)

// TestCaseG4OtherBackEndIsTold (kubernetes/kubernetes#71305): rules of a Service proxy that
// the other back end has are told, of each family; other rules there are not.
func TestCaseG4OtherBackEndIsTold(t *testing.T) {
	eachBackend(t, func(t *testing.T, h *host) {
		other := BackendLegacy
		if h.backend == BackendLegacy {
			other = BackendNFT
		}
		rules := "*nat\n-A PREROUTING -p tcp --dport 7 -j ACCEPT\nCOMMIT\n"
		command(t, rules, program(other, false, "-restore"), "-w", "5", "--noflush")
		h.rules() // has no notes
		for _, ipv6 := range []bool{false, true} {
			rules := "*nat\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n"
			command(t, rules, program(other, ipv6, "-restore"), "-w", "5", "--noflush")
		}
		r, err := New(context.Background(), h.flags)
		if err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(r.Notes(), "\n")
		for _, family := range []string{"IPv4", "IPv6"} {
			if !strings.Contains(notes, family+": iptables-"+string(other)) {
				t.Errorf("notes %q, want one of %s", notes, family)
			}
		}
	})
}
