//go:build kernel

package deploy

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
)

// TestPod runs the DaemonSet's Pod on every node of the lab, under exactly its security
// settings and mounts, from the files that the image has.
func TestPod(t *testing.T) {
	lab, containers := newLab(t)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	apply(t, lab)
	containers[testbed.Node3].args = []string{"--iptables-backend=legacy"}
	if err := lab.Start(ctx); err != nil {
		t.Fatal(err)
	}
	n := containers[testbed.Node1]
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of node-1:\n%s", strings.Join(n.log.Last(80, nil), "\n"))
		}
	})
	t.Run("confined", func(t *testing.T) { testConfined(ctx, t, n) })
	t.Run("packets", func(t *testing.T) { reach(t, lab) })
	t.Run("probes", func(t *testing.T) { testProbes(ctx, t, n) })
	t.Run("legacy tables", func(t *testing.T) { testLegacy(ctx, t, containers[testbed.Node3]) })
	t.Run("commands", func(t *testing.T) { testCommands(ctx, t, n) })
	t.Run("restart", func(t *testing.T) {
		// A restarted container finds what the killed one left, without its init container.
		if err := n.Kill(ctx); err != nil {
			t.Fatal(err)
		}
		reach(t, lab)
		reset(t, n)
		start(ctx, t, lab, n, "--refresh-period=1s")
		if got, err := n.host.Sysctl(resetKey); err != nil || got != "1" {
			t.Errorf("%s is %q after the restart, %v", resetKey, got, err)
		}
		reach(t, lab)
	})
	t.Run("reset while it runs", func(t *testing.T) {
		reset(t, n)
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(100 * time.Millisecond) {
			got, err := n.host.Sysctl(resetKey)
			if err == nil && got == "1" {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s is %q, %v", resetKey, got, err)
			}
		}
	})
	t.Run("without the mount of the sysctls", func(t *testing.T) {
		if err := n.Stop(ctx); err != nil {
			t.Fatal(err)
		}
		reset(t, n)
		n.withhold = "/host/proc/sys/net"
		start(ctx, t, lab, n)
		if got, err := n.host.Sysctl(resetKey); err != nil || got != "0" {
			t.Errorf("%s is %q: what sets it?, %v", resetKey, got, err)
		}
		told := n.log.Last(1, func(l string) bool {
			return strings.Contains(l, strings.ReplaceAll(resetKey, "/", ".")+" is 0, want 1")
		})
		if len(told) == 0 {
			t.Error("the wrong setting is not told")
		}
	})
	t.Run("cleanup", func(t *testing.T) { testCleanup(ctx, t, containers[testbed.Node2]) })
}

// testCleanup runs the container that the way back runs on a node once the proxy left.
func testCleanup(ctx context.Context, t *testing.T, c *container) {
	have := func() string {
		t.Helper()
		var all strings.Builder
		for _, tool := range [][]string{{"ipset", "list", "-n"}, {"iptables-nft-save"}, {"ipvsadm", "-Ln"}, {"ip", "-o", "link"}} {
			text, err := c.host.Exec(ctx, tool[0], tool[1:]...)
			if err != nil {
				t.Error(err)
			}
			all.WriteString(text)
		}
		return all.String()
	}
	signs := []string{"KUBE-CLUSTER-IP", "-A KUBE-", clusterIP, "kube-ipvs0"}
	before := have()
	for _, sign := range signs {
		if !strings.Contains(before, sign) {
			t.Errorf("no %s before", sign)
		}
	}
	if err := c.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	// It waits for kube-proxy, which in mode nftables has these tables.
	for _, family := range []string{"ip", "ip6"} {
		if _, err := c.host.Exec(ctx, "nft", "add", "table", family, "kube-proxy"); err != nil {
			t.Fatal(err)
		}
	}
	ds, err := ReadCleanup()
	if err != nil {
		t.Fatal(err)
	}
	pod := ds.Spec.Template.Spec
	spec, err := Bundle(pod, pod.InitContainers[0], c.node)
	if err != nil {
		t.Fatal(err)
	}
	said, err := c.toEnd("cleanup", spec)
	if err != nil {
		t.Fatal(err)
	}
	after := have()
	for _, sign := range signs {
		if strings.Contains(after, sign) {
			t.Errorf("%s is left; cleanup said:\n%s", sign, said)
		}
	}
}

func start(ctx context.Context, t *testing.T, lab *testbed.Lab, c *container, args ...string) {
	t.Helper()
	if err := c.Start(args...); err != nil {
		t.Fatal(err)
	}
	if err := lab.Settle(ctx, c.node.Name); err != nil {
		t.Fatal(err)
	}
}

// resetKey is a setting that the init container made 1, and that IPVS needs.
const resetKey = "net/ipv4/vs/conntrack"

// reset is what another tool on the node might do.
func reset(t *testing.T, c *container) {
	t.Helper()
	if got, err := c.host.Sysctl(resetKey); err != nil || got != "1" {
		t.Errorf("%s is %q before, %v", resetKey, got, err)
	}
	if err := c.host.SetSysctl(resetKey, "0"); err != nil {
		t.Fatal(err)
	}
}

// testConfined asks the kernel under what the main container runs.
func testConfined(ctx context.Context, t *testing.T, c *container) {
	pid, err := c.pid(ctx)
	if err != nil {
		t.Fatal(err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	const netAdminAndRaw = "0000000000003000"
	for _, want := range []string{
		"CapEff:\t" + netAdminAndRaw, "CapPrm:\t" + netAdminAndRaw, "CapBnd:\t" + netAdminAndRaw,
		"NoNewPrivs:\t1", "Seccomp:\t2",
	} {
		if !strings.Contains(string(status), want+"\n") {
			t.Errorf("no %q in\n%s", want, status)
		}
	}
	mounts, err := os.ReadFile(fmt.Sprintf("/proc/%d/mounts", pid))
	if err != nil {
		t.Fatal(err)
	}
	modes := map[string]string{}
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line)
		modes[f[1]], _, _ = strings.Cut(f[3], ",")
	}
	for path, want := range map[string]string{
		"/": "ro", "/proc/sys": "ro", "/sys": "ro", "/lib/modules": "ro", "/var/lib/kube-proxy": "ro",
		"/host/proc/sys/net": "rw", "/run/xtables.lock": "rw", "/run/kube-ipvs-proxy": "rw",
	} {
		if modes[path] != want {
			t.Errorf("%s is %q, want %s", path, modes[path], want)
		}
	}
}

// testLegacy wants the rules where the flag said: the lock and the raw sockets of that
// back end work, too. Packets are asked from this node's Pod by reach.
func testLegacy(ctx context.Context, t *testing.T, c *container) {
	for tool, want := range map[string]bool{"iptables-legacy-save": true, "iptables-nft-save": false} {
		text, err := c.host.Exec(ctx, tool)
		if err != nil || strings.Contains(text, "-j KUBE-") != want {
			t.Errorf("%s: want jumps %v, %v\n%s", tool, want, err, text)
		}
	}
}

// testProbes asks what the kubelet and the scrapers ask.
func testProbes(ctx context.Context, t *testing.T, c *container) {
	at := "http://" + c.host.Addr(testbed.IPv4).String()
	if text, err := get(ctx, c.host, at+":10256/livez"); err != nil || !strings.Contains(text, `"healthy"`) {
		t.Errorf("livez: %v: %s", err, text)
	}
	text, err := get(ctx, c.host, at+":10249/metrics")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "\nkube_ipvs_proxy_services ") {
		t.Error("metrics do not count the Services")
	}
}

// testCommands runs the operator's commands in the main container.
func testCommands(ctx context.Context, t *testing.T, c *container) {
	text, err := c.exec(ctx, "list", "--manifests=/manifests", "--hostname-override="+c.node.Name)
	if err != nil || !strings.Contains(text, clusterIP+":80") || !strings.Contains(text, "default/web") {
		t.Errorf("list: %v\n%s", err, text)
	}
	for _, tool := range []string{"/usr/sbin/iptables-nft", "/usr/sbin/iptables-legacy", "/usr/sbin/ip6tables", "/sbin/modprobe"} {
		if text, err := c.host.Exec(ctx, "runc", "--root", runcState, "exec", c.id(), tool, "--version"); err != nil {
			t.Errorf("%s: %v\n%s", tool, err, text)
		}
	}
}
