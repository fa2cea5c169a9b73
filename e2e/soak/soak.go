package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/e2e/load"
	"kube-ipvs-proxy/e2e/model"
	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// asked are the Services, the first ones, that requests and streams go to.
const asked = 4

// target is the port of the pods; the Services that are asked have those after it, one
// each, since one client asks several of them (see load.Load.Ask).
const target = 8080

// soak is the lab with its Services.
type soak struct {
	lab      *testbed.Lab
	load     *load.Load
	services []*model.Service
	random   *rand.Rand

	changes, restarts, kills atomic.Int64
}

func newSoak(ctx context.Context, o options) (*soak, error) {
	lab, err := testbed.New()
	if err != nil {
		return nil, err
	}
	s := &soak{lab: lab, load: &load.Load{}, random: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))}
	if err := s.serve(); err != nil {
		return nil, errors.Join(err, lab.Close())
	}
	for n := range o.services {
		v := model.NewService(n + 1)
		s.services = append(s.services, v)
		s.base(v)
		if err := s.apply(v); err != nil {
			return nil, errors.Join(err, lab.Close())
		}
	}
	if err := lab.Start(ctx); err != nil {
		return nil, errors.Join(err, lab.Close())
	}
	return s, nil
}

// serve starts the pods' servers.
func (s *soak) serve() error {
	for _, pod := range model.Pods() {
		h := s.lab.Host(pod)
		for _, f := range testbed.Families() {
			for n := range asked + 1 {
				for _, proto := range []probe.Protocol{probe.TCP, probe.UDP} {
					if _, err := h.Serve(proto, netip.AddrPortFrom(h.Addr(f), target+uint16(n))); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// base brings a Service to the value that it has at the begin and at the end.
func (s *soak) base(v *model.Service) {
	*v = *model.NewService(v.Number)
	if v.Number <= asked {
		v.Kind, v.Target = corev1.ServiceTypeLoadBalancer, target+uint16(v.Number)
	}
}

func (s *soak) apply(v *model.Service) error {
	return s.lab.Manifests.Apply(v.Name(), v.Objects(s.lab)...)
}

// begin starts requests and streams.
func (s *soak) begin(o options) error {
	s.load.Streaming = max(o.wait, load.DefaultStreaming)
	for _, v := range s.services[:min(asked, len(s.services))] {
		for _, f := range testbed.Families() {
			at := func(text string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(text), 80) }
			nodePort := netip.AddrPortFrom(s.lab.Host(testbed.Node1).SecondAddr(f), uint16(v.NodePort(80)))
			cluster, outer := at(v.ClusterIP(f)), at(v.LoadBalancerIP(f))
			for _, c := range []struct {
				name, host string
				proto      probe.Protocol
				to         netip.AddrPort
			}{
				{"pod to ClusterIP TCP", testbed.PodC1, probe.TCP, cluster},
				{"pod to ClusterIP UDP", testbed.PodC1, probe.UDP, cluster},
				{"outside to load balancer", testbed.Client, probe.TCP, outer},
				{"outside to NodePort", testbed.Client, probe.TCP, nodePort},
				{"node to ClusterIP", testbed.Node1, probe.TCP, cluster},
			} {
				call := probe.Call{Protocol: c.proto, To: c.to, Timeout: o.wait}
				s.load.Ask(fmt.Sprintf("%s %v", c.name, f), s.lab.Host(c.host), call, o.pause)
				if c.proto == probe.UDP {
					continue
				}
				if err := s.load.Hold(fmt.Sprintf("stream %s %v", c.name, f), s.lab.Host(c.host), call, o.pause); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// churn changes Services and restarts the agent of node-1 until the time is over, and
// returns what was seen of node-2 meanwhile.
func (s *soak) churn(ctx context.Context, o options) ([]sample, error) {
	start := time.Now()
	ctx, cancel := context.WithTimeout(ctx, o.length)
	defer cancel()
	seen := make(chan []sample)
	go func() { seen <- s.watch(ctx, o.every) }() // which takes long on a busy machine
	restart := time.NewTicker(o.restart)
	defer restart.Stop()
	var err error
	for err == nil && time.Since(start) < o.length {
		select {
		case <-restart.C:
			err = s.again(context.WithoutCancel(ctx))
		case <-time.After(time.Duration(s.random.Int64N(int64(o.change) + 1))):
			err = s.change()
		}
	}
	cancel()
	return <-seen, err
}

// watch samples node-2 again and again and tells of it, until ctx ends.
func (s *soak) watch(ctx context.Context, every time.Duration) []sample {
	var samples []sample
	start := time.Now()
	for {
		select {
		case <-ctx.Done():
			return samples
		case <-time.After(every):
		}
		now, err := s.sample(ctx)
		if ctx.Err() != nil {
			return samples
		}
		if err != nil {
			fmt.Printf("no sample: %v\n", err) // a machine that is starved is late
		} else {
			samples = append(samples, now)
			now.print(time.Since(start).Round(time.Second).String())
		}
		fmt.Printf("          %d changes, %d restarts, %v\n", s.changes.Load(), s.restarts.Load(), s.load.Counts())
	}
}

// again restarts the agent of node-1, in good order and by kill -9 in turn.
func (s *soak) again(ctx context.Context) error {
	p := s.lab.Proxy(testbed.Node1)
	end := p.Stop
	if s.restarts.Add(1)%2 == 0 {
		end = p.Kill
		s.kills.Add(1)
	}
	if err := end(ctx); err != nil {
		return err
	}
	return p.Start()
}

// change makes one change. A Service that is asked keeps an endpoint on node-1 that is
// ready, so that every policy leaves somebody to answer.
func (s *soak) change() error {
	s.changes.Add(1)
	v := s.services[s.random.IntN(len(s.services))]
	if s.random.IntN(5) == 0 {
		v = s.services[s.random.IntN(min(asked, len(s.services)))]
	}
	if v.Number > asked && s.random.IntN(30) == 0 {
		s.base(v)
		if err := s.lab.Manifests.Remove(v.Name()); err != nil {
			return err
		}
		return s.apply(v)
	}
	if v.Number > asked && s.random.IntN(2) == 0 {
		v.Kind = []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort}[s.random.IntN(2)]
	}
	if s.random.IntN(3) == 0 {
		v.ExternalLocal = s.random.IntN(2) == 0
		v.InternalLocal = s.random.IntN(4) == 0
		return s.apply(v)
	}
	ready := model.Condition{Ready: true, Serving: true}
	for _, pod := range model.Pods() {
		// A pod goes in order: one that vanished would take a datagram's answer along.
		leaving := v.Endpoints[pod].Terminating
		switch s.random.IntN(4) {
		case 0:
			if leaving {
				delete(v.Endpoints, pod)
			}
		case 1:
			v.Endpoints[pod] = model.Condition{Serving: true, Terminating: true}
		case 2:
			v.Endpoints[pod] = ready
		}
	}
	if v.Number <= asked {
		v.Endpoints[testbed.PodL1] = ready
	}
	return s.apply(v)
}

// calm brings all Services back to their first value, and waits for what drains.
func (s *soak) calm(ctx context.Context, first sample) (sample, error) {
	for _, v := range s.services {
		s.base(v)
		if err := s.apply(v); err != nil {
			return sample{}, err
		}
	}
	if err := s.lab.Settle(ctx); err != nil {
		return sample{}, err
	}
	// A connection that was closed is remembered for two minutes.
	for end := time.Now().Add(6 * time.Minute); ; time.Sleep(5 * time.Second) {
		now, err := s.sample(ctx)
		if err != nil || same(first, now) == nil || time.Now().After(end) {
			return now, err
		}
	}
}
