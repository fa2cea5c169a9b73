//go:build kernel

package packets

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/e2e/probe"
)

const (
	reservedPorts = "net/ipv4/ip_local_reserved_ports"
	localPorts    = "net/ipv4/ip_local_port_range"
)

// setting gives a setting of N another value until the test ends.
func (s *scene) setting(name, value string) {
	s.Helper()
	before, err := lab.Host(N).Sysctl(name)
	if err == nil {
		err = lab.Host(N).SetSysctl(name, value)
	}
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if before == "" {
			before = "\n" // to write nothing changes nothing
		}
		if err := lab.Host(N).SetSysctl(name, before); err != nil {
			s.Error(err)
		}
	})
}

// wantSetting waits until a setting of N has the value.
func (s *scene) wantSetting(name, want string) {
	s.Helper()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		got, err := lab.Host(N).Sysctl(name)
		if err == nil && got == want {
			return
		}
		if time.Now().After(deadline) {
			s.Fatalf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
}

// TestCaseE12NodePortIsNobodysSourcePort (kubernetes/kubernetes#111682): a process of
// the node that takes every port of the node's range never gets a NodePort.
func TestCaseE12NodePortIsNobodysSourcePort(t *testing.T) {
	const nodePort, first, last = 30100, 30000, 30200
	s := begin(t)
	s.setting(reservedPorts, "8080")
	s.setting(localPorts, "30000 30200")
	v := s.service(service{endpoints: ready(L1), nodePort: true, ports: web[:1], change: func(o *corev1.Service) {
		o.Spec.Ports[0].NodePort = nodePort
	}})
	s.wantSetting(reservedPorts, "8080,30100")
	s.eachTCP(func(w way) {
		// The last one finds no port, or without the reservation the NodePort. Some port may be
		// bound by another process of the node.
		taken, err := w.takePorts(netip.AddrPortFrom(w.addr(L2), 8080), last-first+1)
		if taken[nodePort] || err == nil || !strings.Contains(err.Error(), unix.EADDRNOTAVAIL.Error()) {
			w.Errorf("%d connections of %d ports, one from the NodePort: %v, the last: %v", len(taken), last-first+1, taken[nodePort], err)
		}
	})
	if err := lab.Restart(context.Background(), N); err != nil {
		t.Fatal(err)
	}
	s.wantSetting(reservedPorts, "8080,30100")
	s.remove(v)
	s.wantSetting(reservedPorts, "8080")
}

// takePorts connects from N until that fails, as when no port is left, at most n times, and
// returns the ports that it got and why it ended; the connections end with the test.
func (w way) takePorts(to netip.AddrPort, n int) (map[uint16]bool, error) {
	w.Helper()
	taken := map[uint16]bool{}
	for range n {
		stream, err := lab.Host(N).Hold(probe.Call{Protocol: TCP, To: to})
		if err != nil {
			return taken, err
		}
		w.Cleanup(func() {
			if err := stream.Reset(); err != nil {
				w.Error(err)
			}
		})
		taken[stream.First.Client.Port()] = true
	}
	return taken, nil
}
