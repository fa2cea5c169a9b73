//go:build kernel && peers

package takeover

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-ipvs-proxy/e2e/judge"
	"kube-ipvs-proxy/e2e/testbed"
)

// TestVerifyByHand has verify-ipvsadm.sh judge a node by ipvsadm and the real kubectl, which
// asks the API server under the rights of deploy/base.
func TestVerifyByHand(t *testing.T) {
	j, err := judge.NewLab(t.Context(), judge.API)
	if err != nil {
		t.Fatal(err)
	}
	j.SettleLimit = slow
	s := newStage(t, j.Lab, j.Close)
	kubectl, err := j.CopyPeer(t.Context(), "kubectl")
	s.do(err)
	s.do(j.Proxy(node).Start())
	s.settle()
	s.do(j.Proxy(node).Stop(t.Context())) // it would mend what is planted
	judged := func() []string {
		t.Helper()
		line := "KUBECONFIG=" + j.Kubeconfig + " PATH=" + filepath.Dir(kubectl) + ":$PATH sh ../verify-ipvsadm.sh " + node + "; echo exit $?"
		out, err := s.lab.Host(node).Exec(t.Context(), "sh", "-c", line)
		s.do(err)
		t.Log(out)
		return strings.Split(strings.TrimSpace(out), "\n")
	}
	// Of four Services: two ports at a ClusterIP, a load balancer and the node, by IPv4 and IPv6.
	const least = 48
	servers := 0
	got := judged()
	if _, err := fmt.Sscanf(got[0], "%d virtual servers", &servers); err != nil || servers < least || !strings.Contains(got[0], " 0 differences") || got[len(got)-1] != "exit 0" {
		t.Fatalf("on a settled node: %q", got)
	}
	at := cluster.at(cluster.clusterIP(testbed.IPv6)).String()
	pod := netip.AddrPortFrom(j.Host(testbed.PodRm).Addr(testbed.IPv6), podPort).String()
	s.tool("ipvsadm -e -t " + at + " -r " + pod + " -m -w 0")
	s.tool("ipvsadm -D -u " + local.at(local.lbIP(testbed.IPv4)).String())
	got = judged()
	want := []string{
		"weight 0: TCP " + at + " -> " + pod + " (default/s1): it gets no new connections",
		"missing: virtual server UDP " + local.at(local.lbIP(testbed.IPv4)).String() + " (default/s2)",
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("it does not say %q", line)
		}
	}
	if len(got) != len(want)+2 || got[len(got)-1] != "exit 1" {
		t.Errorf("it said %q", got)
	}
}
