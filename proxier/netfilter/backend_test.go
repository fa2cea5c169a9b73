package netfilter

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// TestChoose decides by what tells most, and refuses what nobody can tell.
func TestChoose(t *testing.T) {
	none := traces{}
	kubelet, serves, canary := traces{kubelet: "KUBE-KUBELET-CANARY"}, traces{serves: "KUBE-SERVICES"}, traces{canary: "KUBE-PROXY-CANARY"}
	both := kubelet.or(serves)
	for _, test := range []struct {
		name        string
		named       Backend
		nft, legacy traces
		want        Backend
		why         string
		refused     string // part of the way out; empty: it is taken
	}{
		{"nothing", "", none, none, BackendAuto, "nothing on the host tells", ""},
		{"named", BackendLegacy, kubelet, none, BackendLegacy, "named", ""},
		{"kubelet in nft", "", kubelet, none, BackendNFT, "KUBE-KUBELET-CANARY", ""},
		{"kubelet in legacy", "", none, both, BackendLegacy, "KUBE-KUBELET-CANARY", ""},
		{"kubelet wins over canary", "", canary, kubelet, BackendLegacy, "KUBE-KUBELET-CANARY", ""},
		{"Services in nft", "", serves, none, BackendNFT, "KUBE-SERVICES", ""},
		{"Services decide between kubelets", "", kubelet, both, BackendLegacy, "KUBE-SERVICES", ""},
		{"canary in legacy", "", none, canary, BackendLegacy, "KUBE-PROXY-CANARY", ""},
		{"stale Services in legacy", "", kubelet, serves, BackendNFT, "KUBE-KUBELET-CANARY", "KIPVS- | iptables-legacy-restore"},
		{"stale Services in nft", "", serves, kubelet, BackendLegacy, "KUBE-KUBELET-CANARY", "KIPVS- | iptables-nft-restore"},
		{"named, and Services in the other", BackendNFT, none, serves, BackendNFT, "named", "KIPVS- | iptables-legacy-restore"},
		{"Services in both", "", serves, serves, BackendAuto, "", "name one by --iptables-backend"},
		{"two kubelets", "", kubelet, kubelet, BackendAuto, "", "name one by --iptables-backend"},
		{"two kubelets, named", BackendNFT, kubelet, kubelet, BackendNFT, "named", ""},
	} {
		got, err := choose(test.named, test.nft, test.legacy)
		if got.Backend != test.want || !strings.Contains(got.Why, test.why) {
			t.Errorf("%s: %+v, want %q for %q", test.name, got, test.want, test.why)
		}
		if refused := errors.Is(err, ErrMixedBackends); refused != (test.refused != "") || refused && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.refused)
		}
	}
}

func TestTraces(t *testing.T) {
	listed := chains{"mangle KUBE-KUBELET-CANARY": false, "mangle KUBE-IPTABLES-HINT": false, "nat KUBE-SERVICES": true,
		"nat PREROUTING": true, "filter KUBE-PROXY-CANARY": false}
	if got, want := listed.traces(), (traces{kubelet: "KUBE-IPTABLES-HINT", serves: "KUBE-SERVICES"}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	listed["nat KUBE-SERVICES"] = false
	if without := listed.traces(); without.serves != "" {
		t.Errorf("an empty chain serves: %+v", without)
	}
}

// TestBrokenEntries: a table that the kernel would never give ends in an error.
func TestBrokenEntries(t *testing.T) {
	for size := 1; size < 200; size++ {
		for _, ipv6 := range []bool{false, true} {
			if err := (chains{}).addEntries(tableNAT, bytes.Repeat([]byte{byte(size)}, size), ipv6); err == nil {
				t.Errorf("%d bytes, IPv6 %t: no error", size, ipv6)
			}
		}
	}
}
