//go:build kernel

package takeover

import (
	"fmt"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
)

// TestCaseH6LeftoversOfAnotherMode: what another proxy left serves until we do, no longer
// (statement 105; kubernetes/kubernetes#102314, #86421, #121272). Requests and streams run
// while we start on rules as kube-proxy's modes leave them.
func TestCaseH6LeftoversOfAnotherMode(t *testing.T) {
	lab, err := testbed.New()
	if err != nil {
		t.Fatal(err)
	}
	top := newStage(t, lab, lab.Close)
	top.plantStrangers()
	for _, mode := range []struct {
		name        string
		left, drain func(s *stage, l leftovers)
	}{
		{"ipvs", leaveIPVS, drainIPVS},
		{"iptables", leaveIPTables, func(s *stage, l leftovers) { leaveIPTables(s, l.drained()) }},
		{"nftables", leaveNFTables, func(s *stage, l leftovers) { leaveNFTables(s, l.drained()) }},
	} {
		t.Run(mode.name, func(t *testing.T) {
			s := &stage{T: t, lab: lab, program: top.program}
			s.do(apply(lab, draining))
			for _, f := range testbed.Families() {
				mode.left(s, leftovers{lab, f, []service{cluster, local, draining}})
			}
			load := s.load(few(loops(lab)))
			s.do(apply(lab, drained))
			for _, f := range testbed.Families() {
				mode.drain(s, leftovers{lab, f, []service{cluster, local, draining}})
			}
			time.Sleep(calm / 3)

			s.do(lab.Proxy(node).Start())
			s.settle()
			time.Sleep(calm)
			load.Stop()
			s.unharmed(load, time.Time{}, time.Now(), mode.name, Connects, Streams)
			s.strangersLive("after the start on rules of " + mode.name)
			s.nothingLeft()
			s.do(lab.Proxy(node).Stop(t.Context()))
			s.tool(s.program + " cleanup")
		})
	}
}

// drained is what is left once the endpoint has gone.
func (l leftovers) drained() leftovers {
	l.services = []service{cluster, local, drained}
	return l
}

func leaveIPTables(s *stage, l leftovers) {
	s.feed(l.iptables(), l.pick("iptables-restore", "ip6tables-restore")+" --noflush")
}

func leaveNFTables(s *stage, l leftovers) {
	ip := l.pick("ip", "ip6")
	s.feed(fmt.Sprintf("add table %s kube-proxy\ndelete table %s kube-proxy\n%s", ip, ip, l.nftables()), "nft -f -")
}

func leaveIPVS(s *stage, l leftovers) {
	if l.f == testbed.IPv4 {
		s.tool("ip link add kube-ipvs0 type dummy")
		s.tool("sysctl -qw net.ipv4.vs.conntrack=1")
	}
	s.feed(l.ipvsSets(), "ipset restore")
	s.feed(l.ipvsRules(), l.pick("iptables-restore", "ip6tables-restore")+" --noflush")
	s.feed(l.ipvsServers(), "ipvsadm --restore")
	for _, a := range l.ipvsAddresses() {
		s.do(s.lab.Host(node).AddAddr("kube-ipvs0", a, a.BitLen()))
	}
}

func drainIPVS(s *stage, l leftovers) {
	for _, line := range l.ipvsDrain() {
		s.tool(line)
	}
}
