//go:build kernel

package netfilter

import (
	"errors"
	"strings"
	"testing"
)

// TestCaseG4BackendOfTheKubelet finds the back end from the chains of the kubelet, and refuses rules
// of Services in the other one (kubernetes/kubernetes#71305).
func TestCaseG4BackendOfTheKubelet(t *testing.T) {
	for _, backend := range []Backend{BackendNFT, BackendLegacy} {
		other := map[Backend]Backend{BackendNFT: BackendLegacy, BackendLegacy: BackendNFT}[backend]
		for _, ipv6 := range []bool{false, true} {
			t.Run(string(backend)+" "+familyName(ipv6), func(t *testing.T) {
				newNamespace(t)
				if got, err := ChooseBackend(t.Context(), BackendAuto, true); err != nil || got.Backend != BackendAuto {
					t.Fatalf("of an empty host: %+v, %v", got, err)
				}
				add := func(b Backend, text string) {
					t.Helper()
					command(t, text, program(b, ipv6, "-restore"), "--noflush")
				}
				add(backend, "*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n")
				if got, err := ChooseBackend(t.Context(), BackendAuto, true); err != nil || got.Backend != backend {
					t.Fatalf("with the kubelet's chain: %+v, %v", got, err)
				}
				add(other, "*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -j RETURN\nCOMMIT\n")
				for _, named := range []Backend{BackendAuto, backend} {
					got, err := ChooseBackend(t.Context(), named, true)
					if !errors.Is(err, ErrMixedBackends) || !strings.Contains(err.Error(), wayOut(other)) || got.Backend != backend {
						t.Errorf("with stale rules of Services, named %q: %+v, %v", named, got, err)
					}
				}
				add(other, "*nat\n-A PREROUTING -p tcp --dport 7 -j ACCEPT\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n")
				line, _, _ := strings.Cut(wayOut(other), ",")
				if ipv6 {
					line = strings.ReplaceAll(line, "iptables", "ip6tables")
				}
				command(t, "", "sh", "-c", line)
				if left := command(t, "", program(other, ipv6, "-save")); !strings.Contains(left, "--dport 7") || strings.Contains(left, "KUBE-") {
					t.Errorf("the way out leaves: %s", left)
				}
				if got, err := ChooseBackend(t.Context(), BackendAuto, true); err != nil || got.Backend != backend {
					t.Errorf("after the removal: %+v, %v", got, err)
				}
			})
		}
	}
}
