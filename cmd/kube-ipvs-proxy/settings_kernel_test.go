//go:build kernel

package main

import (
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	vnetlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/kernel"
)

// sysctl reads a setting; empty when the kernel does not have it.
func sysctl(key string) string {
	text, err := os.ReadFile(filepath.Join("/proc/sys", key))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func setSysctl(t *testing.T, key, value string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join("/proc/sys", key), []byte(value), 0); err != nil {
		t.Fatal(err)
	}
}

func expectSysctls(t *testing.T, want map[string]string) {
	t.Helper()
	for key, value := range want {
		if have := sysctl(key); have != value {
			t.Errorf("%s is %q, want %q", key, have, value)
		}
	}
}

func timeouts(t *testing.T) ipvsutil.Timeouts {
	t.Helper()
	ipvs, err := kernel.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ipvs.Close() }()
	have, err := ipvs.Timeouts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return have
}

// TestStatement109UnknownScheduler ends the process before anything is set.
func TestStatement109UnknownScheduler(t *testing.T) {
	before := timeouts(t)
	setSysctl(t, "net/ipv4/conf/all/arp_ignore", "0")
	_, err := execute(t, "--manifests", t.TempDir(), "--ipvs-scheduler", "none_such", "--ipvs-strict-arp", "--ipvs-udp-timeout", "55s")
	exit, ok := errors.AsType[exitError](err)
	if !ok || exit.code != 2 || !strings.Contains(err.Error(), "ipvs.scheduler") || !strings.Contains(err.Error(), "wrr") {
		t.Errorf("error %v, want status 2, the field, and the schedulers that there are", err)
	}
	expectSysctls(t, map[string]string{"net/ipv4/conf/all/arp_ignore": "0"})
	if after := timeouts(t); after != before {
		t.Errorf("limits %+v became %+v", before, after)
	}
	if _, err := vnetlink.LinkByName(ipvsutil.Device); err == nil {
		t.Error("the device is there")
	}
}

// TestInitOnlySetsWhatNeedsPrivileges, and makes nothing; statements 95, 107, 108.
func TestInitOnlySetsWhatNeedsPrivileges(t *testing.T) {
	for key, value := range map[string]string{
		"net/ipv4/vs/conntrack": "0", "net/ipv4/vs/expire_nodest_conn": "0", "net/ipv4/ip_forward": "0",
		"net/ipv4/conf/all/arp_ignore": "0", "net/ipv4/conf/all/arp_announce": "0",
	} {
		setSysctl(t, key, value)
	}
	args := []string{"--init-only", "--ipvs-strict-arp", "--ipvs-udp-timeout", "77s", "--conntrack-udp-timeout", "44s",
		"--conntrack-tcp-timeout-established", "10h"}
	want := map[string]string{
		"net/ipv4/vs/conntrack": "1", "net/ipv4/vs/expire_nodest_conn": "1", "net/ipv4/ip_forward": "1",
		"net/ipv4/conf/all/arp_ignore": "1", "net/ipv4/conf/all/arp_announce": "2",
		"net/netfilter/nf_conntrack_tcp_timeout_established": "36000", "net/netfilter/nf_conntrack_udp_timeout": "44",
	}
	if sysctl("net/ipv4/vs/run_estimation") != "" {
		setSysctl(t, "net/ipv4/vs/run_estimation", "1")
		args = append(args, "--ipvs-run-estimation=false")
		want["net/ipv4/vs/run_estimation"] = "0"
	}
	if _, err := execute(t, args...); err != nil {
		t.Fatal(err)
	}
	expectSysctls(t, want)
	if have := timeouts(t); have.TCP != 36000 || have.UDP != 77 {
		t.Errorf("limits of IPVS are %+v, want TCP 36000 as conntrack, UDP 77", have)
	}
	if _, err := vnetlink.LinkByName(ipvsutil.Device); err == nil {
		t.Error("the device is there")
	}
}

// TestClusterIPBindingByRoute makes a ClusterIP local without an address.
func TestClusterIPBindingByRoute(t *testing.T) {
	folder := t.TempDir()
	const service = `{apiVersion: v1, kind: Service, metadata: {name: s, namespace: d},
spec: {type: ClusterIP, clusterIP: 10.96.7.7, clusterIPs: [10.96.7.7], ports: [{port: 80, protocol: TCP}]}}`
	if err := os.WriteFile(filepath.Join(folder, "s.yaml"), []byte(service), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := execute(t, "--manifests", folder, "--once", "--cluster-ip-binding", "route", "--hostname-override", "n"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = execute(t, "--cleanup") })
	device, err := vnetlink.LinkByName(ipvsutil.Device)
	if err != nil {
		t.Fatal(err)
	}
	if addrs, err := vnetlink.AddrList(device, unix.AF_INET); err != nil || len(addrs) != 0 {
		t.Errorf("addresses %v, %v, want none", addrs, err)
	}
	routes, err := vnetlink.RouteListFiltered(unix.AF_INET,
		&vnetlink.Route{Table: unix.RT_TABLE_LOCAL, Dst: &net.IPNet{IP: net.IPv4(10, 96, 7, 7), Mask: net.CIDRMask(32, 32)}},
		vnetlink.RT_FILTER_TABLE|vnetlink.RT_FILTER_DST)
	if err != nil || len(routes) != 1 {
		t.Errorf("routes %v, %v, want one", routes, err)
	}
}

// TestStatement125ChangedConfigFile is adopted while the process runs where that can
// be, ends it with a reason else, and is refused when it is wrong.
func TestStatement125ChangedConfigFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "config.conf")
	write := func(cidr, more string) {
		t.Helper()
		text := "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclusterCIDR: " + cidr + "\n" + more +
			"\n---\napiVersion: kube-ipvs-proxy/v1alpha1\nkind: IPVSProxyConfiguration\nmanifests: " + t.TempDir() + "\n"
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	folder := t.TempDir()
	args := []string{"--config", name, "--manifests", folder, "--hostname-override", "n"}
	write("10.244.0.0/16", "")
	ended := make(chan error, 1)
	go func() {
		_, err := execute(t, args...)
		ended <- err
	}()
	t.Cleanup(func() { _, _ = execute(t, "--cleanup") })
	rules := func() string {
		out, err := exec.Command("iptables-save", "-t", "nat").Output()
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	wait := func(what string, there func() bool) {
		t.Helper()
		for end := time.Now().Add(time.Minute); !there(); time.Sleep(200 * time.Millisecond) {
			select {
			case err := <-ended:
				t.Fatalf("%s: the process ended: %v", what, err)
			default:
			}
			if time.Now().After(end) {
				t.Fatalf("%s: not within a minute:\n%s", what, rules())
			}
		}
	}
	wait("start", func() bool { return strings.Contains(rules(), "10.244.0.0/16") })
	write("nonsense", "iptables: {masqueradeAll: true}")
	time.Sleep(2 * time.Second)
	write("10.244.0.0/16", "iptables: {masqueradeAll: true}")
	wait("masqueradeAll", func() bool { return !strings.Contains(rules(), "10.244.0.0/16") })
	write("10.245.0.0/16", "")
	select {
	case err := <-ended:
		if exit, ok := errors.AsType[exitError](err); !ok || exit.code != 1 || !strings.Contains(err.Error(), "clusterCIDR") {
			t.Errorf("ended with %v, want status 1 and clusterCIDR", err)
		}
	case <-time.After(time.Minute):
		t.Error("another clusterCIDR does not end the process")
	}
}
