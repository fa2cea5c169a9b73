//go:build kernel

package main

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"kube-ipvs-proxy/proxier/netfilter"
)

// TestBackendOfTheKubelet takes the back end in which the kubelet has its chain, and
// changes nothing where the other one has rules of Services.
func TestBackendOfTheKubelet(t *testing.T) {
	tool := func(stdin, name string, args ...string) string {
		t.Helper()
		cmd := exec.Command(name, args...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	const canary = "*mangle\n:KUBE-KUBELET-CANARY - [0:0]\nCOMMIT\n"
	const services = "*nat\n:KUBE-SERVICES - [0:0]\n-A KUBE-SERVICES -d 10.96.0.1/32 -j DNAT --to-destination 10.244.9.9\nCOMMIT\n"
	run := func() error {
		_, err := execute(t, "--manifests", t.TempDir(), "--once", "--hostname-override", "n")
		return err
	}
	defer func() { // while the test's context lives
		for _, backend := range []string{"legacy", "nft"} {
			if out, err := execute(t, "--cleanup", "--iptables-backend", backend); err != nil {
				t.Errorf("cleanup of %s: %v\n%s", backend, err, out)
			}
		}
		tool("", "iptables-legacy", "-t", "mangle", "-X", "KUBE-KUBELET-CANARY")
		tool("", "ipvsadm", "--set", "900", "120", "300") // the kernel's own, which cleanup cannot know
	}()
	tool(canary, "iptables-legacy-restore", "--noflush")
	if err := run(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(tool("", "iptables-legacy-save"), "KIPVS-STAMP") || strings.Contains(tool("", "iptables-nft-save"), "KIPVS-STAMP") {
		t.Error("the rules are not in the kubelet's back end, or not there alone")
	}
	if _, err := execute(t, "--cleanup"); err != nil {
		t.Fatal(err)
	}
	tool(services, "iptables-nft-restore", "--noflush")
	if err := run(); !errors.Is(err, netfilter.ErrMixedBackends) {
		t.Errorf("with stale rules in nft: %v", err)
	}
	if strings.Contains(tool("", "iptables-legacy-save"), "KIPVS-STAMP") {
		t.Error("rules were written all the same")
	}
	tool("", "sh", "-c", "iptables-nft-save | grep -v -e KUBE- -e KIPVS- | iptables-nft-restore") // the way out that it names
	if err := run(); err != nil {
		t.Errorf("after the way out: %v", err)
	}
}
