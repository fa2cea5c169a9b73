package explain

import (
	"strings"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// TestEvidence: counters of the frontend's sets, its connections and flows are told, and
// nothing of others.
func TestEvidence(t *testing.T) {
	w := newWorld()
	w.service("web", func(*plan.Service) {}, endpoint("10.244.1.10:8080", "node-1"))
	w.settle()
	web, other := tcp("10.96.0.10:80"), tcp("10.96.0.99:80")
	w.node.Evidence = &Evidence{
		Counters: []Counter{
			{"nat KUBE-SERVICES", "KUBE-CLUSTER-IP", 2}, {"nat KUBE-SERVICES", "KUBE-CLUSTER-IP", 3},
			{"filter KIPVS-FRONTENDS", "KUBE-CLUSTER-IP", 0}, {"nat KUBE-SERVICES", "KUBE-EXTERNAL-IP", 7},
		},
		Connections: map[ipvsutil.Key]map[string]int{web: {"SYN_RECV": 1, "ESTABLISHED": 2}, other: {"ESTABLISHED": 9}},
		Flows:       []Flow{{Frontend: web}, {Frontend: web, Unanswered: true}, {Frontend: web}, {Frontend: other}},
	}
	text := w.explain("web", pod)
	for _, want := range []string{
		"  counted   packets by chain and set, of all members of the set: nat\n            KUBE-SERVICES KUBE-CLUSTER-IP 5\n",
		"  seen      in IPVS 2 ESTABLISHED, 1 SYN_RECV; 3 in conntrack, 1 of them\n            without an answer so far\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	w.node.Evidence = &Evidence{}
	if text := w.explain("web", pod); !strings.Contains(text, "  seen      the connections of IPVS could not be read; none in conntrack\n") {
		t.Errorf("without IPVS: %s", text)
	}
}
