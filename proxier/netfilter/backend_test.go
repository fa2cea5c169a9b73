package netfilter

import (
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
	const listed = "*mangle\n:KUBE-KUBELET-CANARY - [0:0]\n:KUBE-IPTABLES-HINT - [0:0]\nCOMMIT\n" +
		"*nat\n:KUBE-SERVICES - [0:0]\n:PREROUTING ACCEPT [0:0]\n%COMMIT\n*filter\n:KUBE-PROXY-CANARY - [0:0]\nCOMMIT\n"
	with := parseListing(strings.Replace(listed, "%", "-A KUBE-SERVICES -j X\n", 1)).traces()
	if want := (traces{kubelet: "KUBE-IPTABLES-HINT", serves: "KUBE-SERVICES"}); with != want {
		t.Errorf("%+v, want %+v", with, want)
	}
	if without := parseListing(strings.Replace(listed, "%", "", 1)).traces(); without.serves != "" {
		t.Errorf("an empty chain serves: %+v", without)
	}
}
