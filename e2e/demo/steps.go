package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// demo is the lab and what the steps share.
type demo struct {
	ctx context.Context
	lab *testbed.Lab
}

// samples are the manifests, from the repository's root where make runs this.
const samples = "deploy/manifests"

// echoPort is where the pods of the samples listen.
const echoPort = 8080

// load starts the pods' servers and the proxies on the sample manifests.
func (d *demo) load() error {
	for _, pod := range []string{testbed.PodL1, testbed.PodL2, testbed.PodRm, testbed.PodR3} {
		for _, f := range testbed.Families() {
			at := netip.AddrPortFrom(d.lab.Host(pod).Addr(f), echoPort)
			if _, err := d.lab.Host(pod).Serve(probe.TCP, at); err != nil {
				return err
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(samples, "*.yaml"))
	if err != nil || len(files) == 0 {
		return fmt.Errorf("no sample manifests in %s: run it in the repository's root", samples)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if name == "nodes" {
			continue // the lab has Node objects of its own, with the same addresses
		}
		if err := d.lab.Manifests.ApplyText(name, string(text)); err != nil {
			return err
		}
		fmt.Println("  " + file)
	}
	began := time.Now()
	if err := d.lab.Start(d.ctx, "--nodeport-addresses", "primary"); err != nil {
		return err
	}
	fmt.Printf("  all three kernels have them after %s (processes start slowly under emulation)\n", short(time.Since(began)))
	return nil
}

// servers shows what node-1's kernel has.
func (d *demo) servers() error {
	say("ipvsadm -Ln on node-1")
	out, err := d.lab.Host(testbed.Node1).Exec(d.ctx, "ipvsadm", "-Ln")
	if err != nil {
		return err
	}
	fmt.Print(indent(out))
	say("kube-ipvs0 on node-1: every ClusterIP, and only those")
	out, err = d.lab.Host(testbed.Node1).Exec(d.ctx, "ip", "-brief", "address", "show", "dev", "kube-ipvs0")
	if err != nil {
		return err
	}
	fmt.Print(indent(out))
	return nil
}

// requests shows who answers and which source it sees, for each kind of frontend.
func (d *demo) requests() error {
	say("Requests: who answered, and the source that it saw")
	t := newTable()
	for _, r := range []request{
		{testbed.PodC1, "a pod to a ClusterIP keeps its address", "10.96.0.10:80"},
		{testbed.PodC1, "the same by IPv6", "[fd96::10]:80"},
		{testbed.Node1, "a node's process has its node's address", "10.96.0.10:80"},
		{testbed.PodL1, "a pod that meets itself does not see itself", "10.96.0.10:80"},
		{testbed.Client, "outside, NodePort, policy Cluster", "172.30.0.2:30080"},
		{testbed.Client, "outside, load balancer, policy Cluster", "203.0.113.10:80"},
		{testbed.PodC1, "a pod, load balancer, policy Cluster", "203.0.113.10:80"},
	} {
		d.ask(t, r)
	}
	return t.print()
}

// policies shows externalTrafficPolicy Local: outside stays on the node and keeps
// its address, clients on the node reach all.
func (d *demo) policies() error {
	say("externalTrafficPolicy: Local")
	t := newTable()
	for _, r := range []request{
		{testbed.Client, "outside: only pods on the node, own address", "203.0.113.11:80"},
		{testbed.PodC1, "a pod: all pods, own address", "203.0.113.11:80"},
		{testbed.Node1, "a node's process: all pods, node's address", "203.0.113.11:80"},
	} {
		d.ask(t, r)
	}
	return t.print()
}

func short(d time.Duration) string { return d.Round(100 * time.Microsecond).String() }

func indent(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString("  " + line)
	}
	return b.String()
}
