//go:build kernel

package packets

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/e2e/probe"
)

// A pod dies hard, and clients with an open connection went on to send to it for a
// quarter of an hour: with a drain timeout of zero they are told, and so connect anew.
func TestCaseD2ClientOfADeadEndpoint(t *testing.T) {
	s := begin(t)
	s.flags("--drain-timeout", "0s")
	v := s.service(service{endpoints: ready(L1)})
	held := s.streams(v)
	out, err := lab.Host(L1).Exec(context.Background(), "ip", "link", "set", "eth0", "down")
	if err != nil {
		t.Fatal(err, out)
	}
	t.Cleanup(func() { s.revive(L1) })
	v.endpoints = ready(Rm)
	s.apply(v)
	s.eachTCP(func(w way) {
		began := time.Now()
		err := held[w.f].Alive(10 * time.Second)
		if !errors.Is(err, unix.ECONNRESET) {
			w.Errorf("after %v: %v, want a reset", time.Since(began), err)
		}
		w.Logf("reset after %v", time.Since(began).Round(time.Millisecond))
		w.from(c1).times(4).to(v.cluster(w)).reach(Rm)
	})
}

// revive brings a pod's device up again, with the addresses and routes that it lost.
func (s *scene) revive(pod string) {
	h := lab.Host(pod)
	gateway := lab.Host(h.Node)
	for _, command := range [][]string{
		{"ip", "link", "set", "eth0", "up"},
		{"ip", "address", "replace", h.Addr(IPv6).String() + "/128", "dev", "eth0", "nodad"},
		{"ip", "route", "replace", gateway.BridgeAddr(IPv4).String(), "dev", "eth0"},
		{"ip", "route", "replace", "default", "via", gateway.BridgeAddr(IPv4).String(), "dev", "eth0"},
		{"ip", "-6", "route", "replace", gateway.BridgeAddr(IPv6).String(), "dev", "eth0"},
		{"ip", "-6", "route", "replace", "default", "via", gateway.BridgeAddr(IPv6).String(), "dev", "eth0"},
	} {
		if _, err := h.Exec(context.Background(), command[0], command[1:]...); err != nil {
			s.Error(err)
		}
	}
	for _, proto := range []probe.Protocol{TCP, UDP} { // it serves as before
		for _, port := range podPorts {
			for _, addr := range []netip.Addr{h.Addr(IPv4), h.Addr(IPv6)} {
				at := netip.AddrPortFrom(addr, port)
				if r := lab.Host(h.Node).Probe.Do(probe.Call{Protocol: proto, To: at}); r.Outcome != probe.OK {
					s.Errorf("%s does not serve again: %v", pod, r)
				}
			}
		}
	}
}
