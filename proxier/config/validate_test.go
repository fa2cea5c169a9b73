package config

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestRefused: each wrong value is refused, with the field, its flag and the reason.
func TestRefused(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--bind-address", "node"}, `bindAddress (--bind-address) "node": is no IP address`},
		{[]string{"--bind-address", "fe80::1%eth0"}, `bindAddress`},
		{[]string{"--hostname-override", " "}, `hostnameOverride (--hostname-override) " ": is no name`},
		{[]string{"--oom-score-adj", "-1001"}, `oomScoreAdj (--oom-score-adj) "-1001": must be -1000 to 1000`},
		{[]string{"--oom-score-adj", "1001"}, `oomScoreAdj`},
		{[]string{"--kube-api-burst", "-1"}, `clientConnection.burst (--kube-api-burst) "-1": must not be negative`},
		{[]string{"--config-sync-period", "0s"}, `configSyncPeriod (--config-sync-period) "0s": must be more than zero`},
		{[]string{"--healthz-bind-address", "localhost:1"}, `healthzBindAddress (--healthz-bind-address) "localhost:1": must be an IP`},
		{[]string{"--healthz-bind-address", "0.0.0.0:70000"}, `healthzBindAddress`},
		{[]string{"--healthz-bind-address", "::1:65536"}, `healthzBindAddress`},
		{[]string{"--metrics-bind-address", ""}, `metricsBindAddress (--metrics-bind-address) "": must be an IP`},
		{[]string{"--metrics-port", "0"}, `metricsBindAddress`},
		{[]string{"--healthz-port", "70000"}, `healthzBindAddress`},
		{[]string{"--metrics-bind-address", "0.0.0.0:10256"}, `is the address of the health server too`},
		{[]string{"--detect-local-mode", "podCIDR"}, `detectLocalMode (--detect-local-mode) "podCIDR": must be one of ClusterCIDR, NodeCIDR`},
		{[]string{"--detect-local-mode", "BridgeInterface"}, `detectLocal.bridgeInterface (--pod-bridge-interface) "": is needed by detectLocalMode BridgeInterface`},
		{[]string{"--detect-local-mode", "BridgeInterface", "--pod-bridge-interface", "sixteen-letters-"}, `at most 15`},
		{[]string{"--detect-local-mode", "InterfaceNamePrefix"}, `detectLocal.interfaceNamePrefix (--pod-interface-name-prefix) "": is needed`},
		{[]string{"--detect-local-mode", "InterfaceNamePrefix", "--pod-interface-name-prefix", "fifteen-letters"}, `at most 14`},
		{[]string{"--detect-local-mode", "InterfaceNamePrefix", "--pod-interface-name-prefix", "a b"}, `is no name`},
		{[]string{"--cluster-cidr", "10.0.0.1"}, `clusterCIDR (--cluster-cidr) "10.0.0.1": is no CIDR`},
		{[]string{"--cluster-cidr", "10.0.0.0/8,"}, `clusterCIDR (--cluster-cidr) "": is no CIDR`},
		{[]string{"--cluster-cidr", "10.0.0.0/8,11.0.0.0/8"}, `has two CIDRs of one family`},
		{[]string{"--cluster-cidr", "fd00::/8,fc00::/8,10.0.0.0/8"}, `has two CIDRs of one family`},
		{[]string{"--nodeport-addresses", "all,primary,all"}, `nodePortAddresses[2] (--nodeport-addresses) "all": is there twice`},
		{[]string{"--nodeport-addresses", "Primary"}, `nodePortAddresses[0]`},
		{[]string{"--nodeport-addresses", "::ffff:1.2.3.4/120"}, `nodePortAddresses[0]`},
		{[]string{"--iptables-masquerade-bit", "32"}, `iptables.masqueradeBit (--iptables-masquerade-bit) "32": must be 0 to 31`},
		{[]string{"--iptables-masquerade-bit", "-1"}, `iptables.masqueradeBit`},
		{[]string{"--ipvs-sync-period", "0s"}, `ipvs.syncPeriod (--ipvs-sync-period) "0s": must be more than zero`},
		{[]string{"--ipvs-min-sync-period", "-1s"}, `ipvs.minSyncPeriod (--ipvs-min-sync-period) "-1s": must not be negative`},
		{[]string{"--ipvs-min-sync-period", "31s"}, `must not be more than ipvs.syncPeriod, which is 30s`},
		{[]string{"--ipvs-scheduler", "RR"}, `ipvs.scheduler (--ipvs-scheduler) "RR": is no scheduler's name`},
		{[]string{"--ipvs-scheduler", "sixteen_letters_"}, `ipvs.scheduler`},
		{[]string{"--ipvs-exclude-cidrs", "10.0.0.0/8,10.0.0.0/33"}, `ipvs.excludeCIDRs[1] (--ipvs-exclude-cidrs) "10.0.0.0/33": is no CIDR`},
		{[]string{"--ipvs-tcp-timeout", "-1s"}, `ipvs.tcpTimeout (--ipvs-tcp-timeout) "-1s": must not be negative`},
		{[]string{"--ipvs-tcpfin-timeout", "999ms"}, `must be a second or more, or zero`},
		{[]string{"--ipvs-udp-timeout", "2147484s"}, `ipvs.udpTimeout (--ipvs-udp-timeout) "596h31m24s": must be 596h31m22s at most`},
		{[]string{"--conntrack-max-per-core", "-1"}, `conntrack.maxPerCore`},
		{[]string{"--conntrack-min", "-1"}, `conntrack.min`},
		{[]string{"--conntrack-tcp-timeout-established", "-1s"}, `conntrack.tcpEstablishedTimeout`},
		{[]string{"--conntrack-tcp-timeout-close-wait", "-1s"}, `conntrack.tcpCloseWaitTimeout`},
		{[]string{"--conntrack-udp-timeout", "-1s"}, `conntrack.udpTimeout`},
		{[]string{"--conntrack-udp-timeout-stream", "600000h"}, `conntrack.udpStreamTimeout`},
		{[]string{"--logging-format", "xml"}, `logging.format (--logging-format) "xml": must be one of text, json`},
		{[]string{"--external-address-mode", "x"}, `externalAddressMode (--external-address-mode) "x": must be one of capture, bind`},
		{[]string{"--allow-external-cidrs", "x"}, `allowExternalCIDRs[0] (--allow-external-cidrs) "x": is no CIDR`},
		{[]string{"--cluster-ip-binding", "x"}, `clusterIPBinding`},
		{[]string{"--refresh-period", "-1s"}, `refreshPeriod (--refresh-period) "-1s": must not be negative`},
		{[]string{"--iptables-backend", "x"}, `iptablesBackend`},
		{[]string{"--node-port-range", "1"}, `nodePortRange (--node-port-range) "1": must be FIRST-LAST`},
		{[]string{"--node-port-range", "2-1"}, `must be FIRST-LAST`},
		{[]string{"--node-port-range", "0-1"}, `must be FIRST-LAST`},
		{[]string{"--node-port-range", "1-70000"}, `must be FIRST-LAST`},
		{[]string{"--node-port-range", "1-2x"}, `must be FIRST-LAST`},
		{[]string{"--node-port-range", "2000-65000"}, `leaves no ports`},
		{[]string{"--strict-mode", "--proxy-mode", "nftables"}, `mode (--proxy-mode) "nftables": must be ipvs or empty`},
	} {
		r, err := resolve(t, test.args...)
		if err != nil {
			t.Fatal(err)
		}
		_, err = r.Validate()
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: error %v, want one with %q", test.args, err, test.want)
		}
	}
}

// TestRefusedAtOnce: all that is wrong is said in one go, from the file and from flags.
func TestRefusedAtOnce(t *testing.T) {
	name := file(t, "ipvs.excludeCIDRs", "[10.0.0.0/8, nine]", "oomScoreAdj: 5000\nclusterCIDR: x\nnodePortAddresses: [a, b]")
	r, err := resolve(t, "--config", name, "--refresh-period", "-1s", "--logging-format", "xml")
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Validate()
	want := []string{
		`oomScoreAdj (--oom-score-adj) "5000": must be -1000 to 1000`,
		`refreshPeriod (--refresh-period) "-1s": must not be negative`,
		`logging.format (--logging-format) "xml": must be one of text, json`,
		`clusterCIDR (--cluster-cidr) "x": is no CIDR such as 192.0.2.0/24 or 2001:db8::/64`,
		`nodePortAddresses[0] (--nodeport-addresses) "a": is neither a CIDR such as 192.0.2.0/24 nor one of primary, localhost, all`,
		`nodePortAddresses[1] (--nodeport-addresses) "b": is neither a CIDR such as 192.0.2.0/24 nor one of primary, localhost, all`,
		`ipvs.excludeCIDRs[1] (--ipvs-exclude-cidrs) "nine": is no CIDR such as 192.0.2.0/24 or 2001:db8::/64`,
	}
	if diff := cmp.Diff(strings.Join(want, "\n"), err.Error()); diff != "" {
		t.Errorf("want -, have +\n%s", diff)
	}
}

// TestMode: any mode serves, another one than ipvs is told once, and what its section
// says of masquerading counts.
func TestMode(t *testing.T) {
	for _, test := range []struct {
		mode, more string
		wrong      string
		all        bool
		bit        uint8
		nodePorts  []string
		note       string
	}{
		{"''", "", "", false, 14, nil, ""},
		{"ipvs", "iptables: {masqueradeAll: true, masqueradeBit: 20}", "", true, 20, nil, ""},
		{"ipvs", "nftables: {masqueradeAll: true, masqueradeBit: 20}", "", false, 14, nil, "nftables.masqueradeAll has no effect"},
		{"iptables", "iptables: {masqueradeAll: true}", "iptables", true, 14, nil, `mode is "iptables"`},
		{"nftables", "nftables: {masqueradeAll: true, masqueradeBit: 20}", "nftables", true, 20, []string{"primary"}, `mode is "nftables"`},
		{"nftables", "iptables: {masqueradeAll: true, masqueradeBit: 20}", "nftables", false, 14, []string{"primary"}, "nftables.masqueradeAll and"},
		{"nftables", "nodePortAddresses: [all]", "nftables", false, 14, []string{"all"}, ""},
		{"userspace", "", "userspace", false, 14, nil, `mode is "userspace"`},
	} {
		o := mustValidate(t, "--config", file(t, "mode", test.mode, test.more))
		have := [...]any{o.WrongMode, o.MasqueradeAll, o.MasqueradeBit, o.NodePorts}
		if diff := cmp.Diff([...]any{test.wrong, test.all, test.bit, test.nodePorts}, have); diff != "" {
			t.Errorf("mode %s, %s: want -, have +\n%s", test.mode, test.more, diff)
		}
		if test.note != "" && !hasNote(o, test.note) {
			t.Errorf("mode %s, %s: notes %v, want %q", test.mode, test.more, o.Notes, test.note)
		}
	}
	for _, mode := range []string{"", "ipvs"} {
		if o := mustValidate(t, "--strict-mode", "--proxy-mode", mode); o.WrongMode != "" {
			t.Errorf("strict, mode %q: wrong mode %q", mode, o.WrongMode)
		}
	}
}

// TestMinSyncPeriod is zero from flags as from a file; kube-proxy has a second from flags.
func TestMinSyncPeriod(t *testing.T) {
	for _, args := range [][]string{
		nil, {"--proxy-mode", "ipvs"}, {"--iptables-min-sync-period", "5s"},
		{"--config", file(t, "mode", "ipvs", "iptables: {minSyncPeriod: 5s}")},
	} {
		if o := mustValidate(t, args...); o.MinSyncPeriod != 0 || o.SyncPeriod != 30*time.Second {
			t.Errorf("%q: periods %s and %s", args, o.MinSyncPeriod, o.SyncPeriod)
		}
	}
}

// TestServerAddresses follow the family of the bind address and the deprecated ports.
func TestServerAddresses(t *testing.T) {
	for _, test := range []struct {
		args            []string
		health, metrics string
	}{
		{nil, "0.0.0.0:10256", "127.0.0.1:10249"},
		{[]string{"--bind-address", "::"}, "[::]:10256", "[::1]:10249"},
		{[]string{"--bind-address", "::", "--metrics-bind-address", "0.0.0.0"}, "[::]:10256", "0.0.0.0:10249"},
		{[]string{"--config", file(t, "bindAddress", "'2001:db8::1'", "")}, "[::]:10256", "[::1]:10249"},
		{[]string{"--config", file(t, "bindAddress", "'::'", "healthzBindAddress: 127.0.0.1")}, "127.0.0.1:10256", "[::1]:10249"},
		{[]string{"--healthz-port", "1", "--metrics-port", "2"}, "0.0.0.0:1", "127.0.0.1:2"},
		{[]string{"--healthz-port", "1", "--bind-address", "::"}, "[::]:1", "[::1]:10249"},
		{[]string{"--healthz-port", "1", "--healthz-bind-address", "192.0.2.1"}, "192.0.2.1:1", "127.0.0.1:10249"},
		{[]string{"--healthz-port", "1", "--healthz-bind-address", "192.0.2.1:7"}, "192.0.2.1:7", "127.0.0.1:10249"},
		{[]string{"--healthz-port", "0"}, "", "127.0.0.1:10249"},
		{[]string{"--healthz-bind-address", ""}, "", "127.0.0.1:10249"},
		{[]string{"--healthz-bind-address", "::1", "--metrics-bind-address", "[::1]"}, "[::1]:10256", "[::1]:10249"},
		{[]string{"--config", file(t, "mode", "ipvs", ""), "--healthz-port", "1"}, "0.0.0.0:10256", "127.0.0.1:10249"},
	} {
		o := mustValidate(t, test.args...)
		if o.HealthAddress != test.health || o.MetricsAddress != test.metrics {
			t.Errorf("%q: %q and %q, want %q and %q", test.args, o.HealthAddress, o.MetricsAddress, test.health, test.metrics)
		}
	}
	if o := mustValidate(t, "--healthz-port", "1"); !hasNote(o, "--healthz-port is deprecated") {
		t.Errorf("notes %v", o.Notes)
	}
}

func TestUnspecifiedBindAddress(t *testing.T) {
	for _, addr := range []string{"0.0.0.0", "::", "::ffff:0.0.0.0"} {
		if o := mustValidate(t, "--bind-address", addr); o.BindAddress.IsValid() {
			t.Errorf("%s gives %s", addr, o.BindAddress)
		}
	}
	if o := mustValidate(t, "--bind-address", "::ffff:192.0.2.1"); o.BindAddress != netip.MustParseAddr("192.0.2.1") {
		t.Errorf("a mapped address gives %s", o.BindAddress)
	}
}

// TestNotes are what a choice brings with it.
func TestNotes(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "clusterCIDR is empty"},
		{[]string{"--feature-gates", "KubeProxyIPVS=false"}, "featureGates.KubeProxyIPVS has no effect here"},
		{[]string{"--ipvs-udp-timeout", "5m", "--conntrack-udp-timeout", "30s"}, "conntrack.udpTimeout 30s ends UDP flows before ipvs.udpTimeout 5m0s"},
		{[]string{"--iptables-masquerade-bit", "3"}, "iptables.masqueradeBit 3 leaves numbers for 7 Services"},
	} {
		if o := mustValidate(t, test.args...); !hasNote(o, test.want) {
			t.Errorf("%q: notes %v, want %q", test.args, o.Notes, test.want)
		}
	}
	if o := mustValidate(t, "--cluster-cidr", "10.0.0.0/8"); o.Notes != nil {
		t.Errorf("an ordinary configuration has notes: %v", o.Notes)
	}
}
