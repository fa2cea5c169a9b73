// Command demo shows the main job live: three nodes made of network namespaces,
// one proxy on each, the sample manifests, requests with who answered and which
// source the pod saw, and two changes while traffic runs. It needs a kernel with
// IPVS: make demo runs it in the machine that has one.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// run shows every step; the lab goes when it ends.
func run(ctx context.Context) error {
	start := time.Now()
	say("Building three nodes, a client outside and six pods; starting a proxy on each node")
	lab, err := testbed.New()
	if err != nil {
		return err
	}
	defer func() { _ = lab.Close() }() // namespaces end with the process
	d := &demo{ctx: ctx, lab: lab}
	for _, step := range []func() error{
		d.load, d.servers, d.requests, d.policies, d.addEndpoint, d.removeEndpoint,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	say("Done in %s", time.Since(start).Round(time.Second))
	return nil
}

// say prints the heading of a step.
func say(format string, args ...any) {
	fmt.Printf("\n== "+format+"\n", args...)
}
