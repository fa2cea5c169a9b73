//go:build kernel

package packets

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/e2e/testbed"
)

// nodes changes the Node objects until the test ends.
func (s *scene) nodes(change func(*corev1.Node)) {
	s.Helper()
	if err := lab.ApplyNodes(change); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if err := lab.ApplyNodes(nil); err != nil {
			s.Fatal(err)
		}
		s.settle()
	})
	s.settle()
}

func TestStatement124OtherAddressOfTheNode(t *testing.T) {
	s := begin(t)
	s.flags("--nodeport-addresses", "primary")
	v := s.service(service{endpoints: ready(L1, Rm), nodePort: true})
	s.nodes(func(n *corev1.Node) {
		for i, a := range n.Status.Addresses {
			for _, f := range testbed.Families() {
				if a.Address == lab.Host(N).Addr(f).String() {
					n.Status.Addresses[i].Address = lab.Host(N).SecondAddr(f).String()
				}
			}
		}
	})
	s.eachTCP(func(w way) {
		w.from(X).times(6).to(v.nodePortAt(lab.Host(N).SecondAddr(w.f))).reach(L1, Rm)
		w.from(X).unserved(v.node(w, N))
	})
	// Settling fails where a proxy has ended.
	s.nodes(func(n *corev1.Node) {
		if n.Name == N {
			n.Name = ""
		}
	})
	s.eachTCP(func(w way) { w.from(c1).times(6).to(v.cluster(w)).reach(L1, Rm) })
}

// configFile is a file of the configuration, with what else it says.
type configFile struct {
	*scene
	path string
}

func (s *scene) configFile() configFile {
	return configFile{s, filepath.Join(s.TempDir(), "config.conf")}
}

// write replaces the file, as an editor does.
func (c configFile) write(lines ...string) {
	c.Helper()
	if lab.Kubeconfig != "" { // the flag does not count beside --config
		lines = append(lines, "clientConnection: {kubeconfig: "+lab.Kubeconfig+"}")
	}
	text := "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n" + strings.Join(lines, "\n") + "\n"
	if err := os.WriteFile(c.path+".new", []byte(text), 0o600); err != nil {
		c.Fatal(err)
	}
	if err := os.Rename(c.path+".new", c.path); err != nil {
		c.Fatal(err)
	}
}

func TestStatement125ChangedConfigurationFile(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	cidr := "clusterCIDR: " + testbed.ClusterCIDR
	file := s.configFile()
	file.write(cidr)
	s.stop()
	s.start("--config", file.path)
	s.settle()
	s.eachTCP(func(w way) { w.from(c1).times(6).to(v.cluster(w)).reach(L1, Rm).seen(w.addr(c1)) })

	file.write(cidr, "iptables: {masqueradeAll: true}")
	s.logged("configuration changed", "adopted=iptables.masqueradeAll")
	s.until("other rules", func() bool {
		rules := s.run("iptables-save", "-t", "nat") + s.run("ip6tables-save", "-t", "nat")
		return !strings.Contains(rules, "10.244.0.0/16") && !strings.Contains(rules, "fd44::/48")
	})
	s.eachTCP(func(w way) { w.from(c1).times(6).to(v.cluster(w)).reach(L1, Rm).seen(w.nodeAddrs()...) })

	file.write(cidr, "ipvs: {excludeCIDRs: [nonsense]}")
	s.logged("refused", "excludeCIDRs")
	file.write("clusterCIDR: 10.99.0.0/16")
	if end := s.ends(); !strings.Contains(end, "exit status 1") || !strings.Contains(end, "restart has to take it over: clusterCIDR") {
		t.Errorf("ended so: %s", end)
	}
	s.eachTCP(func(w way) { w.from(c1).times(6).to(v.cluster(w)).reach(L1, Rm) })
}

func TestStatement126WrongConfiguration(t *testing.T) {
	s := begin(t)
	s.service(service{endpoints: ready(L1, Rm)})
	file := s.configFile()
	file.write("clusterCIDR: "+testbed.ClusterCIDR, "ipvs: {excludeCIDRs: [10.9.0.0/33], scheduler: 7}")
	s.stop()
	before := s.kernel()
	s.start("--config", file.path)
	if end := s.ends(); !strings.Contains(end, "exit status 2") || !strings.Contains(end, file.path) {
		t.Errorf("a number in place of a text ended so: %s", end)
	}
	_ = lab.Proxy(N).Stop(t.Context()) // forget that it ended
	file.write("clusterCIDR: "+testbed.ClusterCIDR, "ipvs: {excludeCIDRs: [10.9.0.0/33], tcpTimeout: -1s}")
	s.start("--config", file.path)
	if end := s.ends(); !strings.Contains(end, "exit status 2") || !strings.Contains(end, "10.9.0.0/33") || !strings.Contains(end, "ipvs.tcpTimeout") {
		t.Errorf("two wrong values ended so: %s", end)
	}
	s.same("refused", before)
	_ = lab.Proxy(N).Stop(t.Context())
	file.write("clusterCIDR: "+testbed.ClusterCIDR, "ipvs: {schedular: lc}", "colour: green")
	s.start("--config", file.path)
	s.settle()
	for _, path := range []string{"ipvs.schedular", "colour"} {
		if got := linesWith("level=WARN", path); len(got) != 1 {
			t.Errorf("%s is told by %q", path, got)
		}
	}
}

// restoreThatFails puts before the programs of iptables-restore others that fail as
// long as a file is there; the proxy has to be started after it.
func (s *scene) restoreThatFails() (fail, well func()) {
	s.Helper()
	dir := s.TempDir()
	broken := filepath.Join(dir, "broken")
	for _, program := range []string{"iptables", "ip6tables"} {
		for _, backend := range []string{"", "-nft", "-legacy"} {
			name := program + backend + "-restore"
			path, err := exec.LookPath(name)
			if err != nil {
				s.Fatal(err)
			}
			text := fmt.Sprintf("#!/bin/sh\n[ ! -e %s ] || { echo 'no memory, say' >&2; exit 4; }\nexec %s \"$@\"\n", broken, path)
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
				s.Fatal(err)
			}
		}
	}
	s.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	fail = func() {
		if err := os.WriteFile(broken, nil, 0o600); err != nil {
			s.Fatal(err)
		}
	}
	well = func() {
		if err := os.Remove(broken); err != nil {
			s.Fatal(err)
		}
	}
	return fail, well
}

// chainOfRules has rules of ours, of which one is taken out to do harm.
const chainOfRules = "KUBE-MARK-MASQ"

func TestStatement113And117WriteThatFails(t *testing.T) {
	s := begin(t)
	fail, well := s.restoreThatFails()
	v := s.service(withHealth(ready(L1)...))
	whole := func() bool { return strings.Contains(s.run("iptables-save", "-t", "nat"), "-A "+chainOfRules) }
	// Nothing is looked at from time to time: what is mended is mended by a new try.
	s.flags("--ipvs-sync-period", "10m", "--refresh-period", "0")
	fail()
	s.run("iptables", "-t", "nat", "-F", chainOfRules)
	s.logged("no memory, say")
	if whole() {
		t.Fatal("the rules were written")
	}
	s.until("a failure that is counted", func() bool {
		return s.sum("kubeproxy_sync_proxy_rules_iptables_restore_failures_total") > 0
	})
	well()
	s.until("the rules", whole)

	// Changes that are late make it unhealthy until they are in.
	if err := lab.Restart(t.Context(), N, "--ipvs-sync-period", "2s"); err != nil {
		t.Fatal(err)
	}
	fail()
	s.run("iptables", "-t", "nat", "-F", chainOfRules)
	v.endpoints = ready(L1, L2)
	s.write(v.name(), v.objects())
	s.wantPages(503, 503)
	s.eachTCP(func(w way) { w.wantHealth(health{503, "2", 2}) })
	well()
	s.wantPages(200, 200)
	s.eachTCP(func(w way) { w.wantHealth(health{200, "2", 2}) })
}

// wantPages waits until the health pages have these codes.
func (s *scene) wantPages(healthz, livez int) {
	s.Helper()
	s.until(fmt.Sprintf("healthz %d, livez %d", healthz, livez), func() bool {
		h, _ := s.page(healthAt, "/healthz")
		l, _ := s.page(healthAt, "/livez")
		return h == healthz && l == livez
	})
}
