//go:build kernel

package testbed

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/probe"
)

// These tests need root and namespaces, but no IPVS: they prove the network and
// the probes, so that a failing packet test speaks of the proxy.

const port = 8080

func newNetwork(t *testing.T) *Network {
	t.Helper()
	n, err := NewNetwork()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func serve(t *testing.T, h *Host, proto probe.Protocol, f Family) netip.AddrPort {
	t.Helper()
	s, err := h.Serve(proto, netip.AddrPortFrom(h.Addr(f), port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.Addr()
}

func TestNetworkKeepsSources(t *testing.T) {
	n := newNetwork(t)
	for _, f := range Families() {
		for _, proto := range []probe.Protocol{probe.TCP, probe.UDP} {
			for _, to := range []string{PodL1, PodRm, PodR3, Node1, Node2} {
				addr := serve(t, n.Host(to), proto, f)
				for _, from := range []string{Client, Node1, Node3, PodC1, PodC2} {
					t.Run(fmt.Sprintf("%v %v %s to %s", f, proto, from, to), func(t *testing.T) {
						r := n.Host(from).Probe.Do(probe.Call{Protocol: proto, To: addr})
						if r.Outcome != probe.OK || r.Who != to {
							t.Fatalf("got %v", r)
						}
						if want := sourceTowards(n.Host(from), n.Host(to), f); to != from && r.Source.Addr() != want {
							t.Errorf("%s saw %v, want %v", to, r.Source.Addr(), want)
						}
					})
				}
			}
		}
	}
}

// sourceTowards is the host's main address, but that of the bridge for a node
// that talks to its own pod.
func sourceTowards(from, to *Host, f Family) netip.Addr {
	if to.Node == from.Name() {
		return nodeSpec(from.Name()).podAddr(1).of(f)
	}
	return from.Addr(f)
}

func TestSecondAddressesAreReached(t *testing.T) {
	n := newNetwork(t)
	for _, f := range Families() {
		node := n.Host(Node1)
		s, err := node.Serve(probe.TCP, netip.AddrPortFrom(node.SecondAddr(f), port))
		if err != nil {
			t.Fatal(err)
		}
		for _, from := range []string{Client, PodC1, Node2} {
			if r := n.Host(from).Probe.Do(probe.Call{Protocol: probe.TCP, To: s.Addr()}); r.Outcome != probe.OK {
				t.Errorf("%v from %s: %v", f, from, r)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestRefusalsAndSilenceAreToldApart(t *testing.T) {
	n := newNetwork(t)
	const limit = 500 * time.Millisecond
	for _, f := range Families() {
		nobody := netip.MustParseAddr("203.0.113.9") // routed to node-1, then to the gateway
		if f == IPv6 {
			nobody = netip.MustParseAddr("fd20:113::9")
		}
		for _, proto := range []probe.Protocol{probe.TCP, probe.UDP} {
			call := probe.Call{Protocol: proto, To: netip.AddrPortFrom(n.Host(PodRm).Addr(f), 81)}
			if r := n.Host(PodC1).Probe.Do(call); r.Outcome != probe.Refused || r.Took > limit {
				t.Errorf("%v %v, closed port: %v", f, proto, r)
			}
			call = probe.Call{Protocol: proto, To: netip.AddrPortFrom(nobody, 80), Timeout: limit}
			if r := n.Host(Client).Probe.Do(call); r.Outcome != probe.Timeout || r.Took < limit || r.Took > 3*limit {
				t.Errorf("%v %v, nobody: %v", f, proto, r)
			}
		}
	}
}

func TestStreamIsHeld(t *testing.T) {
	n := newNetwork(t)
	for _, f := range Families() {
		addr := serve(t, n.Host(PodRm), probe.TCP, f)
		s, err := n.Host(PodC1).Hold(probe.Call{Protocol: probe.TCP, To: addr})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := s.Alive(time.Second); err != nil {
				t.Errorf("%v: %v", f, err)
			}
			time.Sleep(50 * time.Millisecond)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestSnifferCountsWhatArrives(t *testing.T) {
	n := newNetwork(t)
	for _, f := range Families() {
		rm, c1 := n.Host(PodRm), n.Host(PodC1)
		s, err := rm.Sniff()
		if err != nil {
			t.Fatal(err)
		}
		for _, proto := range []probe.Protocol{probe.TCP, probe.UDP} {
			c1.Probe.Do(probe.Call{Protocol: proto, To: netip.AddrPortFrom(rm.Addr(f), 81)}) // nobody listens
		}
		deadline := time.Now().Add(time.Second)
		for s.To(probe.TCP, 81) == 0 || s.To(probe.UDP, 81) == 0 {
			if time.Now().After(deadline) {
				t.Fatalf("%v: packets to a closed port were not seen", f)
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got := s.From(c1.Addr(f)); got < 2 {
			t.Errorf("%v: %d packets of c1, want 2 or more", f, got)
		}
		if got := s.From(n.Host(Client).Addr(f)); got != 0 {
			t.Errorf("%v: %d packets of a silent client", f, got)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOwnRange(t *testing.T) {
	n := newNetwork(t)
	l1, node := n.Host(PodL1), n.Host(Node1)
	for f, text := range map[Family]string{IPv4: "10.244.200.0/24", IPv6: "fd44:0:0:c8::/64"} {
		p := netip.MustParsePrefix(text)
		if err := l1.OwnRange(p); err != nil {
			t.Fatal(err)
		}
		if err := node.Route(p, "cbr0", l1.Addr(f)); err != nil {
			t.Fatal(err)
		}
		s, err := l1.Serve(probe.TCP, netip.AddrPortFrom(everywhere(f).Addr(), port))
		if err != nil {
			t.Fatal(err)
		}
		to := netip.AddrPortFrom(p.Addr().Next().Next(), port)
		if r := n.Host(PodC1).Probe.Do(probe.Call{Protocol: probe.TCP, To: to}); r.Outcome != probe.OK || r.Local != to {
			t.Errorf("%v: %v", to, r)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestExecAndSysctlAreTheHosts(t *testing.T) {
	n := newNetwork(t)
	for _, h := range n.Nodes() {
		if v, err := h.Sysctl("net/ipv4/ip_forward"); err != nil || v != "1" {
			t.Errorf("%s: ip_forward %q, %v", h.Name(), v, err)
		}
		out, err := h.Exec(t.Context(), "ip", "-o", "address", "show", "dev", "eth0")
		if err != nil {
			t.Fatal(err)
		}
		if want := h.Addr(IPv4).String() + "/24"; !strings.Contains(out, want) {
			t.Errorf("%s: no %s in:\n%s", h.Name(), want, out)
		}
	}
	if v, err := n.Host(PodC1).Sysctl("net/ipv4/ip_forward"); err != nil || v != "0" {
		t.Errorf("c1: ip_forward %q, %v", v, err)
	}
}
