//go:build kernel

package packets

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// Field reports about what the node and other programs do meanwhile.

// TestCaseF1AndX2AddressesChurn (kubernetes/kubernetes#129147): NodePorts answer while
// devices and addresses come and go, and while ClusterIPs are bound.
func TestCaseF1AndX2AddressesChurn(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), nodePort: true})
	churn, end := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	var problem error
	wg.Go(func() {
		for n := 0; churn.Err() == nil && problem == nil; n++ {
			_, problem = lab.Host(N).Exec(context.Background(), "sh", "-c", fmt.Sprintf(
				"ip link add churn%[1]d type dummy && ip link set churn%[1]d up && ip addr add 192.0.2.%[2]d/32 dev churn%[1]d &&"+
					"ip addr add 192.0.2.%[3]d/32 dev lo && ip addr del 192.0.2.%[3]d/32 dev lo && ip link del churn%[1]d", n%3, n%100+1, n%100+101))
		}
	})
	var to []netip.AddrPort
	for _, f := range testbed.Families() {
		to = append(to, v.nodePortAt(lab.Host(N).Addr(f)))
	}
	stop := s.keepAsking(X, to...)
	for range 3 {
		other := s.service(service{endpoints: ready(Rm), nodePort: true})
		time.Sleep(time.Second)
		s.remove(other)
	}
	stop()
	end()
	if wg.Wait(); problem != nil {
		t.Error(problem)
	}
}

// TestCaseF9DevicesOfAnyName (kubernetes/kubernetes#55923).
func TestCaseF9DevicesOfAnyName(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1), nodePort: true})
	names := []string{"bond-1", "enp3s0", "team0.12", "wg_a"}
	addr := func(f testbed.Family, i int) netip.Addr {
		return numbered(f, fmt.Sprintf("192.0.2.%d", i+1), fmt.Sprintf("fd32::%d", i+1))
	}
	for i, name := range names {
		s.run("ip", "link", "add", name, "type", "dummy")
		t.Cleanup(func() { s.run("ip", "link", "del", name) })
		s.run("ip", "link", "set", name, "up")
		s.run("ip", "address", "add", addr(IPv4, i).String()+"/32", "dev", name)
		s.run("ip", "address", "add", addr(IPv6, i).String()+"/128", "dev", name, "nodad")
	}
	s.eachTCP(func(w way) {
		for i, name := range names {
			w.eventually("NodePort on "+name, func() bool {
				r := lab.Host(c1).Probe.Do(probe.Call{Protocol: TCP, To: v.nodePortAt(addr(w.f, i)), Timeout: time.Second})
				return r.Who == L1
			})
		}
	})
}

// TestCaseG4RulesOfTheOtherBackEnd (kubernetes/kubernetes#71305): rules of iptables' other
// back end that lead a Service to a pod that is gone end the start, which changes nothing.
func TestCaseG4RulesOfTheOtherBackEnd(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1)})
	s.stop()
	before := s.kernel()
	s.legacy("-N KUBE-SERVICES", "-A PREROUTING -j KUBE-SERVICES",
		fmt.Sprintf("-A KUBE-SERVICES -d %v -p tcp --dport 80 -j DNAT --to-destination 10.244.1.99:8080", v.clusterIP(IPv4)))
	removed := false
	remove := func() {
		if !removed {
			s.legacy("-D PREROUTING -j KUBE-SERVICES", "-F KUBE-SERVICES", "-X KUBE-SERVICES")
			removed = true
		}
	}
	t.Cleanup(remove)
	s.start()
	if end := s.ends(); !strings.Contains(end, "exit status 1") || !strings.Contains(end, "mixed") || !strings.Contains(end, "iptables-legacy-restore") {
		t.Errorf("ended so: %s", end)
	}
	remove()
	s.same("refused", before)
	_ = lab.Proxy(N).Stop(t.Context()) // forget that it ended
	s.start()
	s.settle()
	s.eachTCP(func(w way) { w.from(c1).to(v.cluster(w)).reach(L1) })
}

// TestCaseD4AndD14AndJ5AndX10Restart starts the proxy where other tools were before:
// settings of IPVS that are wrong (kubernetes/kubernetes#81775, #71809, #71358), and a
// firewall-mark server.
func TestCaseD4AndD14AndJ5AndX10Restart(t *testing.T) {
	s := begin(t)
	s.service(service{endpoints: ready(L1)})
	settings := []string{"conn_reuse_mode", "expire_quiescent_template", "expire_nodest_conn", "conntrack"}
	for _, name := range settings {
		if err := lab.Host(N).SetSysctl("net/ipv4/vs/"+name, "0"); err != nil {
			t.Fatal(err)
		}
	}
	s.serverOfMark5()
	before := s.run("ipvsadm", "-Ln", "-f", "5")
	if err := lab.Restart(context.Background(), N); err != nil {
		t.Fatal(err)
	}
	for _, name := range settings {
		if got := s.sysctl("net/ipv4/vs/" + name); got != 1 {
			t.Errorf("%s is %d, want 1", name, got)
		}
	}
	if after := s.run("ipvsadm", "-Ln", "-f", "5"); after != before {
		t.Errorf("was\n%s\nis\n%s", before, after)
	}
	if r := lab.Host(c1).Probe.Do(probe.Call{Protocol: TCP, To: netip.MustParseAddrPort("192.0.2.55:80")}); r.Who != L1 {
		t.Errorf("the server of the other tool: %v", r)
	}
}

// legacy changes the nat table of iptables' legacy back end.
func (s *scene) legacy(lines ...string) {
	s.Helper()
	for _, line := range lines {
		s.run("iptables-legacy", append([]string{"-w", "-t", "nat"}, strings.Fields(line)...)...)
	}
}

// serverOfMark5 is a firewall-mark server of another tool for 192.0.2.55:80, to L1.
func (s *scene) serverOfMark5() {
	s.Helper()
	mark := []string{"PREROUTING", "-p", "tcp", "-d", "192.0.2.55", "--dport", "80", "-j", "MARK", "--set-mark", "5"}
	s.run("ipvsadm", "-A", "-f", "5", "-s", "wlc")
	s.run("ipvsadm", "-a", "-f", "5", "-r", lab.Host(L1).Addr(IPv4).String()+":8080", "-m", "-w", "7")
	s.run("iptables", append([]string{"-t", "mangle", "-I"}, mark...)...)
	s.run("ip", "route", "add", "local", "192.0.2.55", "dev", "lo")
	s.Cleanup(func() {
		s.run("ipvsadm", "-D", "-f", "5")
		s.run("iptables", append([]string{"-t", "mangle", "-D"}, mark...)...)
		s.run("ip", "route", "del", "local", "192.0.2.55", "dev", "lo")
	})
}
