// Command repair measures how long it takes until a node answers again after another hand
// damaged its kernel, and until all is as it was. It prints the table "Repair" of
// e2e/README.md. It has to run as root on a kernel with IPVS, as by e2e/vm.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/e2e/model"
	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

func main() {
	refresh := flag.Duration("refresh", 30*time.Second, "the agent's --refresh-period")
	only := flag.String("only", "", "only damages whose name has this in it")
	flag.Parse()
	if err := run(context.Background(), *refresh, *only); err != nil {
		fmt.Fprintln(os.Stderr, "repair:", err)
		os.Exit(1)
	}
}

// scene is a node with a Service.
type scene struct {
	lab     *testbed.Lab
	node    *testbed.Host
	service *model.Service
	// whole is what the kernel has when all is right.
	whole string
}

func run(ctx context.Context, refresh time.Duration, only string) (err error) {
	lab, err := testbed.New()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Close()) }()
	lab.SettleLimit = testbed.StartLimit
	s := &scene{lab: lab, node: lab.Host(testbed.Node1), service: model.NewService(1)}
	s.service.Kind, s.service.External = corev1.ServiceTypeLoadBalancer, 1
	for _, pod := range model.Pods() {
		for _, f := range testbed.Families() {
			h := lab.Host(pod)
			if _, err := h.Serve(probe.TCP, netip.AddrPortFrom(h.Addr(f), s.service.Target)); err != nil {
				return err
			}
		}
	}
	if err := lab.Manifests.Apply(s.service.Name(), s.service.Objects(lab)...); err != nil {
		return err
	}
	if err := lab.Proxy(testbed.Node1).Start("--refresh-period", refresh.String()); err != nil {
		return err
	}
	if err := lab.Settle(ctx, testbed.Node1); err != nil {
		return err
	}
	if s.whole, err = s.state(ctx); err != nil {
		return err
	}
	if failed := s.ask(); failed != "" {
		return fmt.Errorf("before any damage: %s", failed)
	}
	fmt.Printf("refresh period %v\n\n| damage | found by | first good request | all as before |\n|---|---|---|---|\n", refresh)
	for _, d := range damages() {
		if strings.Contains(d.name, only) {
			if err := s.measure(ctx, d, 2*refresh+2*time.Minute); err != nil {
				return fmt.Errorf("%s: %w", d.name, err)
			}
		}
	}
	return nil
}

// state is all that damage changes, as text.
func (s *scene) state(ctx context.Context) (string, error) {
	text, err := model.Dump(s.node)
	if err != nil {
		return "", err
	}
	rules, err := model.DumpRules(s.node)
	if err != nil {
		return "", err
	}
	timeouts, err := s.node.Exec(ctx, "ipvsadm", "-L", "--timeout")
	if err != nil {
		return "", err
	}
	more := ""
	for _, name := range settings {
		value, err := s.node.Sysctl(name)
		if err != nil {
			return "", err
		}
		more += name + " " + value + "\n"
	}
	return strings.Join([]string{text, rules, timeouts, more}, "\n"), nil
}

// settings are those that a damage sets back.
var settings = []string{"net/ipv4/vs/conntrack", "net/ipv4/ip_forward", "net/ipv4/vs/expire_quiescent_template"}

// ask asks all kinds of frontends in both families at once, each twice so that both
// endpoints are asked, and returns what failed: nothing if all is good.
func (s *scene) ask() string {
	var mu sync.Mutex
	var failed []string
	var calls sync.WaitGroup
	for _, f := range testbed.Families() {
		at := func(text string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(text), 80) }
		for _, c := range []struct {
			from string
			to   netip.AddrPort
		}{
			{testbed.PodC1, at(s.service.ClusterIP(f))},
			{testbed.Node1, at(s.service.ClusterIP(f))},
			{testbed.Client, at(s.service.LoadBalancerIP(f))},
			{testbed.PodC1, at(s.service.ExternalIP(f, 0))},
			{testbed.PodC2, netip.AddrPortFrom(s.node.Addr(f), uint16(s.service.NodePort(80)))},
		} {
			calls.Go(func() {
				call := probe.Call{Protocol: probe.TCP, To: c.to, Timeout: 2 * time.Second}
				for range 2 {
					if r := s.lab.Host(c.from).Probe.Do(call); r.Outcome != probe.OK {
						mu.Lock()
						failed = append(failed, fmt.Sprintf("%s to %v: %v", c.from, c.to, r))
						mu.Unlock()
						return
					}
				}
			})
		}
	}
	calls.Wait()
	slices.Sort(failed)
	return strings.Join(failed, "; ")
}

// measure does one damage and prints its line.
func (s *scene) measure(ctx context.Context, d damage, limit time.Duration) error {
	for _, command := range d.commands {
		if _, err := s.node.Exec(ctx, "sh", "-c", command); err != nil {
			return err
		}
	}
	began := time.Now()
	first := s.ask()
	for failed := first; failed != ""; failed = s.ask() {
		if time.Since(began) > limit {
			return fmt.Errorf("within %v: %s", limit, failed)
		}
	}
	answered := "none failed"
	if first != "" {
		answered = round(time.Since(began))
	}
	for {
		state, err := s.state(ctx)
		if err == nil && state == s.whole {
			break
		}
		if time.Since(began) > limit {
			return errors.Join(err, fmt.Errorf("not as before within %v:\n%s", limit, model.Difference(s.whole, state)))
		}
		time.Sleep(100 * time.Millisecond)
	}
	fmt.Printf("| %s | %s | %s | %s |\n", d.name, d.found, answered, round(time.Since(began)))
	return nil
}

func round(d time.Duration) string {
	if d > 10*time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
