//go:build kernel

package packets

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/probe"
)

// breakage is one thing taken out of a kernel that was right, and the request that
// has to notice.
type breakage struct {
	name string
	// do and undo are command lines on N; an undo of "rules" restores all rules.
	do, undo string
	from     string
	to       netip.AddrPort
}

const rules = "rules"

// TestBreakagesAreNoticed: without the proxy to mend it, each broken entry, server,
// address or rule changes who answers, which source is seen, or how a request is
// refused. A packet test that none of them fails would prove nothing.
func TestBreakagesAreNoticed(t *testing.T) {
	s := begin(t)
	w := way{t, IPv4, TCP}
	list := s.breakages(w)
	s.serve(N, TCP, netip.AddrPortFrom(w.everyAddr(), 2222))
	saved := s.saveRules()
	ctx := context.Background()
	if err := lab.Proxy(N).Kill(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Proxy(N).Start(); err != nil {
			t.Fatal(err)
		}
		s.settle()
	})
	for _, b := range list {
		t.Run(b.name, func(t *testing.T) {
			good := seenBy(b)
			s.shell(b.do)
			bad := seenBy(b)
			if b.undo == rules {
				s.shell("iptables-restore < " + saved)
			} else {
				s.shell(b.undo)
			}
			t.Logf("%s to %v: %s; then: %s", b.from, b.to, good, bad)
			if good == bad {
				t.Errorf("%q changes nothing that %s sees at %v: %s", b.do, b.from, b.to, good)
			}
			if again := seenBy(b); again != good {
				t.Errorf("after %q: %s, before: %s", b.undo, again, good)
			}
		})
	}
}

// breakages makes the Services and says what to break of each.
func (s *scene) breakages(w way) []breakage {
	spread := s.service(service{endpoints: ready(L1, Rm), nodePort: true})
	cluster := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true})
	local := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true, externalLocal: true})
	remote := s.service(service{endpoints: ready(Rm), nodePort: true, externalLocal: true})
	internal := s.service(service{endpoints: ready(Rm), internalLocal: true})
	alone := s.service(service{endpoints: ready(L1)})
	vip, lb, np := spread.cluster(w), cluster.lb(w), spread.node(w, N)
	set := func(name, from string, to netip.AddrPort) breakage {
		entry := fmt.Sprintf("%s %s,tcp:%d", name, to.Addr(), to.Port())
		return breakage{name, "ipset del " + entry, "ipset add " + entry, from, to}
	}
	chain := func(table, name, from string, to netip.AddrPort) breakage {
		return breakage{table + "-" + name, fmt.Sprintf("iptables -w -t %s -F %s", table, name), rules, from, to}
	}
	rm := netip.AddrPortFrom(w.addr(Rm), 8080)
	hairpin := fmt.Sprintf("KUBE-LOOP-BACK %s,tcp:8080,%s", w.addr(L1), w.addr(L1))
	nodePort := fmt.Sprintf("KUBE-NODE-PORT-TCP %d", np.Port())
	nodeIP := fmt.Sprintf("KIPVS-NODE-IP %s", np.Addr())
	address := fmt.Sprintf("%s/32 dev kube-ipvs0", vip.Addr())
	real := fmt.Sprintf("-t %s -r %s", vip, rm)
	return []breakage{
		{"real-server", "ipvsadm -d " + real, "ipvsadm -a " + real + " -m -w 1", c1, vip},
		{"real-server-weight", "ipvsadm -e " + real + " -m -w 0", "ipvsadm -e " + real + " -m -w 1", c1, vip},
		{"address", "ip address del " + address, "ip address add " + address, c1, vip},
		set("KUBE-CLUSTER-IP", X, vip),
		{"KUBE-LOOP-BACK", "ipset del " + hairpin, "ipset add " + hairpin, L1, alone.cluster(w)},
		set("KIPVS-CAPTURE", X, lb),
		set("KUBE-LOAD-BALANCER", X, lb),
		set("KUBE-LOAD-BALANCER-LOCAL", X, local.lb(w)),
		set("KIPVS-DROP-OUTSIDE", X, remote.node(w, N)),
		set("KIPVS-DROP-ALL", c1, internal.cluster(w)),
		{"KUBE-NODE-PORT-TCP", "ipset del " + nodePort, "ipset add " + nodePort, X, np},
		{"KIPVS-NODE-IP", "ipset del " + nodeIP, "ipset add " + nodeIP, X, np},
		chain("nat", "KUBE-MARK-MASQ", X, lb),
		chain("nat", "KUBE-POSTROUTING", N, vip),
		chain("mangle", "KIPVS-CAPTURE-MARK", X, lb),
		chain("mangle", "KIPVS-SHORT-CIRCUIT", c1, local.lb(w)),
		chain("mangle", "KIPVS-INPUT", c1, local.lb(w)),
		chain("filter", "KUBE-IPVS-FILTER", c1, onPort(vip, 2222)),
		chain("filter", "KIPVS-FRONTENDS", X, remote.node(w, N)),
	}
}

// seenBy asks several times and sums up what came: outcomes, who answered and which
// sources they saw, sorted.
func seenBy(b breakage) string {
	seen := map[string]bool{}
	call := probe.Call{Protocol: TCP, To: b.to, Timeout: 2 * silence}
	for _, r := range lab.Host(b.from).Many(call, 8, 4) {
		what := string(r.Outcome)
		if r.Outcome == probe.OK {
			what = fmt.Sprintf("%s saw %s", r.Who, r.Source.Addr())
		}
		seen[what] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
}

func (s *scene) saveRules() string {
	s.Helper()
	file := filepath.Join(s.TempDir(), "rules")
	if err := os.WriteFile(file, []byte(s.run("iptables-save")), 0o600); err != nil {
		s.Fatal(err)
	}
	return file
}

// shell runs a command line on N.
func (s *scene) shell(line string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := lab.Host(N).Exec(ctx, "sh", "-c", line); err != nil {
		s.Fatal(err)
	}
}
