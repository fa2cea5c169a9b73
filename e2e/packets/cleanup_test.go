//go:build kernel

package packets

import (
	"net/netip"
	"strings"
	"testing"

	"kube-ipvs-proxy/e2e/testbed"
)

// program runs a command of the product on N and returns what it printed.
func (s *scene) program(args ...string) string {
	s.Helper()
	path, err := lab.Product()
	if err != nil {
		s.Fatal(err)
	}
	return s.run(path, args...)
}

func TestStatement104CleanupLeavesWhatIsForeign(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(Rm), nodePort: true, loadBalancer: true, externalLocal: true})
	s.stop()
	foreign := map[testbed.Family]netip.AddrPort{
		IPv4: netip.MustParseAddrPort("10.9.9.9:80"), IPv6: netip.MustParseAddrPort("[fd99::9]:80"),
	}
	for f, at := range foreign {
		if err := lab.Host(N).AddAddr("lo", at.Addr(), at.Addr().BitLen()); err != nil {
			t.Fatal(err)
		}
		s.run("ipvsadm", "-A", "-t", at.String(), "-s", "rr")
		s.run("ipvsadm", "-a", "-t", at.String(), "-r", netip.AddrPortFrom(lab.Host(Rm).Addr(f), 8080).String(), "-m")
		t.Cleanup(func() {
			s.run("ipvsadm", "-D", "-t", at.String())
			if err := lab.Host(N).RemoveAddr("lo", at.Addr(), at.Addr().BitLen()); err != nil {
				t.Error(err)
			}
		})
	}
	s.program("cleanup")
	if again := s.program("cleanup"); !strings.Contains(again, "nothing of kube-ipvs-proxy is here") {
		t.Errorf("the second cleanup says %s", again)
	}
	s.eachTCP(func(w way) {
		w.from(c1).times(4).to(foreign[w.f]).reach(Rm).seen(w.addr(c1))
		w.from(c1).unserved(v.cluster(w))
		w.from(X).unserved(v.node(w, N))
		w.from(X).unserved(v.lb(w))
	})
	for _, command := range [][]string{
		{"ipset", "save"}, {"iptables-save"}, {"ip6tables-save"}, {"ip", "link"}, {"ip", "rule"}, {"ip", "-6", "rule"},
	} {
		for line := range strings.Lines(s.run(command[0], command[1:]...)) {
			for _, ours := range []string{"KUBE-", "KIPVS-", "kube-ipvs0", "18768"} {
				if strings.Contains(line, ours) {
					t.Errorf("left: %s", line)
				}
			}
		}
	}
	if servers := s.run("ipvsadm", "-Sn"); strings.Count(servers, "-A ") != len(foreign) {
		t.Errorf("servers:\n%s", servers)
	}
}
