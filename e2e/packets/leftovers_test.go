//go:build kernel

package packets

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-ipvs-proxy/e2e/testbed"
)

// What the proxy finds at its start.

// iptablesMode is what kube-proxy's iptables mode has for a Service: without endpoints
// it is rejected in filter, and nat leads an older endpoint's way.
func iptablesMode(at netip.AddrPort, gone netip.AddrPort) string {
	return fmt.Sprintf(`*filter
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
-I INPUT 1 -m conntrack --ctstate NEW -m comment --comment "kubernetes externally-visible service portals" -j KUBE-EXTERNAL-SERVICES
-I INPUT 1 -m conntrack --ctstate NEW -j KUBE-SERVICES
-I FORWARD 1 -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-I OUTPUT 1 -m conntrack --ctstate NEW -m comment --comment "kubernetes service portals" -j KUBE-SERVICES
-A KUBE-SERVICES -d %[1]s -p tcp -m comment --comment "default/gone:tcp has no endpoints" -m tcp --dport %[2]d -j REJECT
-A KUBE-SERVICES -d %[1]s -p udp -m comment --comment "default/gone:udp has no endpoints" -m udp --dport %[2]d -j REJECT
COMMIT
*nat
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
:KUBE-SEP-AAAAAAAAAAAAAAAA - [0:0]
-A KUBE-SVC-AAAAAAAAAAAAAAAA -j KUBE-SEP-AAAAAAAAAAAAAAAA
-A KUBE-SEP-AAAAAAAAAAAAAAAA -p tcp -m tcp -j DNAT --to-destination %[3]s
-A KUBE-SERVICES -d %[1]s -p tcp -m tcp --dport %[2]d -j KUBE-SVC-AAAAAAAAAAAAAAAA
COMMIT
`, at.Addr(), at.Port(), gone)
}

func TestStatement105LeftoversOfIPTablesMode(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1)})
	s.stop()
	for _, f := range testbed.Families() {
		rules := filepath.Join(t.TempDir(), "rules")
		gone := netip.AddrPortFrom(lab.Host(L2).Addr(f), 9)
		if err := os.WriteFile(rules, []byte(iptablesMode(v.at(v.clusterIP(f)), gone)), 0o600); err != nil {
			t.Fatal(err)
		}
		s.shell(iptables(f) + "-restore --noflush < " + rules)
	}
	s.each(func(w way) { w.from(c1).unserved(v.cluster(w)) })
	s.start()
	s.settle()
	s.each(func(w way) {
		for _, host := range []string{c1, N, X} {
			w.from(host).times(2).to(v.cluster(w)).reach(L1)
		}
	})
	if left := s.kernel(); strings.Contains(left, "has no endpoints") || strings.Contains(left, "KUBE-SVC-") {
		t.Error("rules of iptables mode are left")
	}
}

func TestStatement109UnknownScheduler(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), nodePort: true})
	s.stop()
	before := s.kernel()
	s.start("--ipvs-scheduler", "fastest")
	if end := s.ends(); !strings.Contains(end, "exit status 2") || !strings.Contains(end, "fastest") {
		t.Errorf("ended so: %s", end)
	}
	s.same("unknown scheduler", before)
	s.each(func(w way) { w.from(c1).times(4).to(v.cluster(w)).reach(L1, Rm) })
	_ = lab.Proxy(N).Stop(t.Context()) // forget that it ended
}
