package netfilter

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplitCounters(t *testing.T) {
	plain, counters := splitCounters("*nat\n:PREROUTING ACCEPT [5:300]\n:KUBE-SERVICES - [0:0]\n" +
		"[7:420] -A PREROUTING -j KUBE-SERVICES\n" +
		"[3:180] -A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ\nCOMMIT\n")
	want := "*nat\n:PREROUTING ACCEPT [5:300]\n:KUBE-SERVICES - [0:0]\n" +
		"-A PREROUTING -j KUBE-SERVICES\n" +
		"-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j KUBE-MARK-MASQ\nCOMMIT\n"
	if diff := cmp.Diff(want, plain); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]Counter{{"nat KUBE-SERVICES", "KUBE-CLUSTER-IP", 3}}, counters); diff != "" {
		t.Error(diff)
	}
}
