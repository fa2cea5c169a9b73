package main

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// extra is the endpoint that comes and goes: pod L2 on node-1.
const (
	extraSlice = "echo-extra"
	echoVIP    = "10.96.0.10:80"
)

// slice is a manifest of one more EndpointSlice of Service echo.
const slice = `apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: echo-extra
  namespace: default
  labels:
    kubernetes.io/service-name: echo
addressType: IPv4
ports:
- {name: http, protocol: TCP, port: 8080}
endpoints:
- addresses: [10.244.1.11]
  conditions: {ready: true}
  nodeName: node-1
`

// changeLimit bounds the wait for a change to take effect.
const changeLimit = 30 * time.Second

// addEndpoint adds an endpoint to a manifest and times its first answer.
func (d *demo) addEndpoint() error {
	say("An endpoint is added to a manifest (%s: pod L2)", extraSlice)
	began := time.Now()
	if err := d.lab.Manifests.ApplyText(extraSlice, slice); err != nil {
		return err
	}
	call := probe.Call{Protocol: probe.TCP, To: netip.MustParseAddrPort(echoVIP)}
	requests := 0
	for {
		result := d.lab.Host(testbed.PodC1).Probe.Do(call)
		requests++
		if result.Outcome == probe.OK && result.Who == testbed.PodL2 {
			break
		}
		if time.Since(began) > changeLimit {
			return fmt.Errorf("pod L2 has not answered within %s", changeLimit)
		}
	}
	fmt.Printf("  pod L2 gave its first answer %s after the file was written, as request %d\n", short(time.Since(began)), requests)
	return d.lab.Settle(d.ctx)
}

// removeEndpoint takes the endpoint away while a stream to it is open.
func (d *demo) removeEndpoint() error {
	say("The endpoint is removed while a stream to it is open")
	stream, err := d.holdTo(testbed.PodL2)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // the step is over by then
	if err := d.lab.Manifests.Remove(extraSlice); err != nil {
		return err
	}
	if err := d.lab.Settle(d.ctx); err != nil {
		return err
	}
	out, err := d.lab.Host(testbed.Node1).Exec(d.ctx, "ipvsadm", "-Ln", "-t", echoVIP)
	if err != nil {
		return err
	}
	fmt.Print(indent(out))
	if err := stream.Alive(changeLimit); err != nil {
		return fmt.Errorf("the stream broke: %w", err)
	}
	fmt.Println("  weight 0: the open stream to L2 still works")
	results := d.lab.Host(testbed.PodC1).Many(probe.Call{Protocol: probe.TCP, To: netip.MustParseAddrPort(echoVIP)}, tries, 1)
	for _, r := range results {
		if r.Who == testbed.PodL2 {
			return errors.New("a new connection reached the removed endpoint")
		}
	}
	fmt.Printf("  %d new connections went to the other pods\n", len(results))
	return nil
}

// holdTo opens streams until one is held by the pod.
func (d *demo) holdTo(pod string) (*probe.Stream, error) {
	for range 4 * tries {
		stream, err := d.lab.Host(testbed.PodC1).Hold(probe.Call{Protocol: probe.TCP, To: netip.MustParseAddrPort(echoVIP)})
		if err != nil {
			return nil, err
		}
		if stream.First.Who == pod {
			return stream, nil
		}
		if err := stream.Close(); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("no stream came to pod %s", pod)
}
