//go:build kernel

package packets

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// run runs a program on N and returns what it printed.
func (s *scene) run(program string, args ...string) string {
	s.Helper()
	out, err := lab.Host(N).Exec(context.Background(), program, args...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// iptables names the program of a family.
func iptables(f testbed.Family) string {
	if f == IPv6 {
		return "ip6tables"
	}
	return "iptables"
}

func TestStatement99DeviceHoldsTheClusterIPsAlone(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1), loadBalancer: true, external: true})
	bound := s.bound()
	for _, f := range testbed.Families() {
		if !bound[v.clusterIP(f)] {
			t.Errorf("%v is not on kube-ipvs0", v.clusterIP(f))
		}
		for a := range bound {
			if testbed.FamilyOf(a) == f && !testbed.ServiceRange(f).Contains(a) {
				t.Errorf("%v is on kube-ipvs0 and is no ClusterIP", a)
			}
		}
	}
	s.remove(v) // nobody is connected to it
	for _, f := range testbed.Families() {
		if s.bound()[v.clusterIP(f)] {
			t.Errorf("%v is still on kube-ipvs0", v.clusterIP(f))
		}
	}
}

// bound are the addresses of kube-ipvs0 on N.
func (s *scene) bound() map[netip.Addr]bool {
	s.Helper()
	bound := map[netip.Addr]bool{}
	for line := range strings.Lines(s.run("ip", "-o", "address", "show", "dev", "kube-ipvs0")) {
		p, err := netip.ParsePrefix(strings.Fields(line)[3])
		if err != nil {
			s.Fatal(err)
		}
		bound[p.Addr()] = true
	}
	return bound
}

func TestStatement101ForeignServersAreLeftAlone(t *testing.T) {
	s := begin(t)
	s.run("ipvsadm", "-A", "-t", "10.9.9.9:80", "-s", "rr")
	s.run("ipvsadm", "-a", "-t", "10.9.9.9:80", "-r", "10.244.1.77:80", "-m")
	t.Cleanup(func() { s.run("ipvsadm", "-D", "-t", "10.9.9.9:80") })
	before := s.run("ipvsadm", "-Ln", "-t", "10.9.9.9:80")
	v := s.service(service{endpoints: ready(L1)})
	s.remove(v)
	s.flags("--masquerade-all")
	if after := s.run("ipvsadm", "-Ln", "-t", "10.9.9.9:80"); after != before {
		t.Errorf("was\n%s\nis\n%s", before, after)
	}
}

// syncPeriod is the default period after which all but single real servers are
// checked, and what an emulator may need besides.
const syncPeriod = 40 * time.Second

func TestStatement102DamageIsMended(t *testing.T) {
	const soon = 2 * time.Second // the kernel tells the proxy
	for _, damage := range []struct {
		name    string
		within  time.Duration
		command []string
	}{
		{"device", soon, []string{"ip", "link", "del", "kube-ipvs0"}},
		{"addresses", soon, []string{"ip", "address", "flush", "dev", "kube-ipvs0"}},
		{"servers", syncPeriod, []string{"ipvsadm", "-C"}},
		{"members", syncPeriod, []string{"ipset", "flush"}},
		{"rules", syncPeriod, []string{"iptables", "-t", "nat", "-F"}},
		{"rules of IPv6", syncPeriod, []string{"ip6tables", "-t", "nat", "-F"}},
	} {
		t.Run(damage.name, func(t *testing.T) {
			s := begin(t)
			t.Cleanup(func() {
				if t.Failed() { // the next damage gets a whole node
					s.dumpFailure()
					if err := lab.Restart(context.Background(), N); err != nil {
						t.Error(err)
					}
				}
			})
			v := s.service(service{endpoints: ready(Rm), loadBalancer: true})
			s.run(damage.command[0], damage.command[1:]...)
			began := time.Now()
			for _, f := range testbed.Families() {
				w := way{t, f, TCP}
				for !w.served(c1, v.cluster(w), w.addr(c1)) || !w.served(N, v.lb(w), w.nodeAddrs()...) || !w.served(X, v.lb(w), w.nodeAddrs()...) {
					if time.Since(began) > damage.within {
						t.Fatalf("%v: not mended after %v", f, damage.within)
					}
					time.Sleep(50 * time.Millisecond)
				}
			}
			t.Logf("mended after %v", time.Since(began).Round(time.Millisecond))
		})
	}
}

// served tells whether Rm answers and sees one of the sources.
func (w way) served(from string, at netip.AddrPort, sources ...netip.Addr) bool {
	r := lab.Host(from).Probe.Do(probe.Call{Protocol: w.proto, To: at, Timeout: 500 * time.Millisecond})
	return r.Outcome == probe.OK && r.Who == Rm && slices.Contains(sources, r.Source.Addr())
}

func TestStatement103ForeignRulesAreLeftAlone(t *testing.T) {
	s := begin(t)
	for _, f := range testbed.Families() {
		p := iptables(f)
		s.run(p, "-N", "FOREIGN")
		s.run(p, "-A", "FOREIGN", "-p", "tcp", "--dport", "7", "-j", "DROP")
		s.run(p, "-I", "INPUT", "-j", "FOREIGN")
		t.Cleanup(func() {
			s.run(p, "-D", "INPUT", "-j", "FOREIGN")
			s.run(p, "-F", "FOREIGN")
			s.run(p, "-X", "FOREIGN")
		})
	}
	s.service(service{endpoints: ready(L1), loadBalancer: true})
	s.flags("--masquerade-all")
	for _, f := range testbed.Families() {
		s.run(iptables(f), "-C", "INPUT", "-j", "FOREIGN")
		s.run(iptables(f), "-C", "FOREIGN", "-p", "tcp", "--dport", "7", "-j", "DROP")
	}
}

func TestStatement106InputPolicyDrop(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), nodePort: true, loadBalancer: true})
	s.policyDrop("INPUT")
	s.each(func(w way) {
		w.from(c1).times(4).to(v.cluster(w)).reach(L1, Rm)
		w.from(X).times(4).to(v.node(w, N)).reach(L1, Rm)
		w.from(X).times(4).to(v.lb(w)).reach(L1, Rm)
	})
}

func TestStatement107Sysctls(t *testing.T) {
	for name, want := range map[string]string{
		"net/ipv4/vs/conntrack":                 "1",
		"net/ipv4/vs/expire_nodest_conn":        "1",
		"net/ipv4/vs/expire_quiescent_template": "1",
		"net/ipv4/ip_forward":                   "1",
		"net/ipv4/conf/all/arp_ignore":          "0", // strict ARP only
		"net/ipv4/conf/all/route_localnet":      "0",
	} {
		if got, err := lab.Host(N).Sysctl(name); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %s", name, got, err, want)
		}
	}
}

func TestStatement108StrictARP(t *testing.T) {
	s := begin(t)
	t.Cleanup(func() { // nobody turns it off again
		for _, name := range []string{"net/ipv4/conf/all/arp_ignore", "net/ipv4/conf/all/arp_announce"} {
			if err := lab.Host(N).SetSysctl(name, "0"); err != nil {
				t.Error(err)
			}
		}
	})
	s.flags("--ipvs-strict-arp")
	for name, want := range map[string]string{"net/ipv4/conf/all/arp_ignore": "1", "net/ipv4/conf/all/arp_announce": "2"} {
		if got, err := lab.Host(N).Sysctl(name); err != nil || got != want {
			t.Errorf("%s is %q (%v), want %s", name, got, err, want)
		}
	}
}

func TestStatement110OlderServiceKeepsASharedFrontend(t *testing.T) {
	s := begin(t)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	aged := func(age time.Duration, ips []string) func(*corev1.Service) {
		return func(o *corev1.Service) {
			o.CreationTimestamp = metav1.NewTime(now.Add(-age))
			o.Spec.ExternalIPs = ips
		}
	}
	younger := service{endpoints: ready(Rm), external: true}
	younger.change = aged(time.Hour, []string{"203.0.113.250", "fd20:113::250"})
	s.service(younger)
	older := service{endpoints: ready(L1), external: true}
	older.change = aged(2*time.Hour, []string{"203.0.113.250", "fd20:113::250"})
	winner := s.service(older)
	shared := func(w way) netip.AddrPort {
		return netip.AddrPortFrom(numbered(w.f, "203.0.113.250", "fd20:113::250"), 80)
	}
	s.each(func(w way) { w.from(X).times(6).to(shared(w)).reach(L1) })
	s.remove(winner)
	s.each(func(w way) { w.from(X).times(6).to(shared(w)).reach(Rm) })
}
