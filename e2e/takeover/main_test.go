//go:build kernel

package takeover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
)

// limits of the emulated machine.
const (
	calm = 2 * time.Second // of load before and after a change
	// worst is how long requests may fail: one second on metal.
	worst = 5 * time.Second
	// stray is how many datagrams a busy emulated machine loses now and then.
	stray = 2
)

// stage is a lab with the Services and answering pods, and the program.
type stage struct {
	*testing.T
	lab     *testbed.Lab
	program string
}

// newStage builds it around a lab, which it closes at the end.
func newStage(t *testing.T, lab *testbed.Lab, closeLab func() error) *stage {
	t.Helper()
	t.Cleanup(func() {
		if err := closeLab(); err != nil {
			t.Error(err)
		}
	})
	program, err := lab.Product()
	if err := errors.Join(err, servePods(lab), apply(lab, cluster, local, empty, draining)); err != nil {
		t.Fatal(err)
	}
	return &stage{T: t, lab: lab, program: program}
}

// tool runs a program on the node; a failure ends the test.
func (s *stage) tool(line string) string {
	s.Helper()
	f := strings.Fields(line)
	out, err := s.lab.Host(node).Exec(context.Background(), f[0], f[1:]...)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// feed gives a program on the node its input.
func (s *stage) feed(input, program string) {
	s.Helper()
	file := filepath.Join(s.TempDir(), "input")
	if err := os.WriteFile(file, []byte(input), 0o644); err != nil {
		s.Fatal(err)
	}
	if _, err := s.lab.Host(node).Exec(context.Background(), "sh", "-c", program+" <"+file); err != nil {
		s.Fatalf("%v\n%s", err, input)
	}
}

// settle waits for the proxy of the node.
func (s *stage) settle() {
	s.Helper()
	if err := s.lab.Settle(s.Context(), node); err != nil {
		s.Fatal(err)
	}
}

// do ends the test when something failed.
func (s *stage) do(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// load starts loops and waits a while.
func (s *stage) load(loops []*Loop) *Load {
	s.Helper()
	l, err := Start(loops)
	s.do(err)
	s.Cleanup(l.Stop) // where a failure left it running
	time.Sleep(calm)
	return l
}

// figures tells what the loops met from a moment on and before another.
func (s *stage) figures(l *Load, since, until time.Time, what string) []Tally {
	s.Helper()
	all := l.Tally(since, until)
	for _, t := range all {
		s.Logf("%s", t.Row(what))
		for _, p := range t.Problems {
			s.Logf("  %s", p)
		}
	}
	return all
}

// unharmed tells the figures and wants them in bounds: no request fails longer than worst,
// and of the kinds named none at all.
func (s *stage) unharmed(l *Load, since, until time.Time, what string, never ...Kind) {
	s.Helper()
	for _, t := range s.figures(l, since, until, what) {
		limit := worst
		for _, k := range never {
			if k == t.Kind {
				limit = 0
			}
		}
		if t.Requests == 0 || t.Failed > 0 && (limit == 0 || t.Failed > stray && t.Span > limit && t.Kind != Streams) {
			s.Errorf("%s, %s: %d of %d requests failed, over %v", what, t.Kind, t.Failed, t.Requests, t.Span)
		}
	}
}

// strangers are things of others on the node, which stay whatever proxy comes or goes.
// kube-proxy leaves servers in peace in the range that it is told to exclude.
var strangers = []string{
	"ipvsadm -A -t 192.0.2.99:80 -s wrr", "ipvsadm -a -t 192.0.2.99:80 -r 10.244.1.77:80 -m -w 3",
	"ipset create BLOCKED hash:ip", "ipset add BLOCKED 198.51.100.66",
	"iptables -t filter -A INPUT -p tcp --dport 2222 -j ACCEPT", "iptables -t nat -A POSTROUTING -s 192.0.2.0/24 -j MASQUERADE",
	"ip6tables -t filter -A INPUT -p tcp --dport 2222 -j ACCEPT", "ip6tables -t nat -A POSTROUTING -s fd00::/64 -j MASQUERADE",
	"ip address add 192.0.2.98/32 dev lo", "nft add table ip mine", "nft add chain ip mine kept",
}

func (s *stage) plantStrangers() {
	s.Helper()
	for _, line := range strangers {
		s.tool(line)
	}
}

// strangersLive wants them all to be there still.
func (s *stage) strangersLive(when string) {
	s.Helper()
	for _, c := range []struct{ list, want string }{
		{"ipvsadm -Sn", "-A -t 192.0.2.99:80 -s wrr\n-a -t 192.0.2.99:80 -r 10.244.1.77:80 -m -w 3\n"},
		{"ipset save BLOCKED", "add BLOCKED 198.51.100.66\n"},
		{"iptables-save", "-A INPUT -p tcp -m tcp --dport 2222 -j ACCEPT\n"}, {"iptables-save", "-A POSTROUTING -s 192.0.2.0/24 -j MASQUERADE\n"},
		{"ip6tables-save", "-A INPUT -p tcp -m tcp --dport 2222 -j ACCEPT\n"}, {"ip6tables-save", "-A POSTROUTING -s fd00::/64 -j MASQUERADE\n"},
		{"ip -o address show dev lo", "192.0.2.98/32"}, {"nft list table ip mine", "chain kept"},
	} {
		if out := s.tool(c.list); !strings.Contains(out, c.want) {
			s.Errorf("%s: %q is gone from %s:\n%s", when, c.want, c.list, out)
		}
	}
}

// nothingLeft wants no chain and no table of kube-proxy's other modes, and no refusal of
// the Service that had no endpoint when that proxy ended: by packets, once it has one.
func (s *stage) nothingLeft() {
	s.Helper()
	for _, save := range []string{"iptables-save", "ip6tables-save"} {
		out := s.tool(save)
		for _, name := range []string{"KUBE-SVC-", "KUBE-SEP-", "KUBE-EXT-", "KUBE-SVL-", "KUBE-EXTERNAL-SERVICES", "has no endpoints", "KUBE-PROXY-CANARY", "KUBE-IPVS-OUT-FILTER"} {
			if strings.Contains(out, name) {
				s.Errorf("%s still has %q:\n%s", save, name, out)
			}
		}
		if n := strings.Count(out, "-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES\n"); n != 1 {
			s.Errorf("%s has %d jumps to KUBE-SERVICES from PREROUTING", save, n)
		}
	}
	if out := s.tool("nft list tables"); strings.Contains(out, "kube-proxy") {
		s.Errorf("nftables still has: %s", out)
	}
	filled := empty
	filled.pods = cluster.pods
	s.do(apply(s.lab, filled))
	s.settle()
	for _, l := range onEach(s.lab, filled) {
		if problem := l.ask(); problem != "" {
			s.Errorf("%v, which had no endpoint before: %s", l, problem)
		}
	}
	s.do(apply(s.lab, empty))
	s.settle()
}

// onEach asks the ClusterIP of a Service from each client, in both families.
func onEach(lab *testbed.Lab, v service) []*Loop {
	var all []*Loop
	for _, f := range testbed.Families() {
		for _, client := range clients {
			for _, k := range []Kind{Connects, Datagrams} {
				all = append(all, &Loop{Client: lab.Host(client), Kind: k, Frontend: Frontend{
					Name: fmt.Sprintf("Service %s", v.name()), At: v.at(v.clusterIP(f)), Reach: v.pods,
				}})
			}
		}
	}
	return all
}
