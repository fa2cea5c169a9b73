//go:build kernel

package packets

import (
	"testing"
)

// These tests run the proxy of N with other flags.

func TestStatement04WithoutDetectorSourcesAreKept(t *testing.T) {
	s := begin(t)
	s.flags("--cluster-cidr", "")
	v := s.service(service{endpoints: ready(L1)}) // answers find back by N
	s.each(func(w way) {
		w.from(X).times(4).to(v.cluster(w)).reach(L1).seen(w.addr(X))
		w.from(c1).times(4).to(v.cluster(w)).reach(L1).seen(w.addr(c1))
		w.from(N).times(4).to(v.cluster(w)).reach(L1).seen(w.nodeAddrs()...)
	})
}

func TestStatement05MasqueradeAll(t *testing.T) {
	s := begin(t)
	s.flags("--masquerade-all")
	v := s.service(service{endpoints: ready(L1, Rm)})
	s.each(func(w way) {
		w.from(c1).times(8).to(v.cluster(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
	})
}

func TestStatement06DetectorBridge(t *testing.T) {
	s := begin(t)
	s.flags("--detect-local-mode", "BridgeInterface", "--pod-bridge-interface", "cbr0")
	v := s.service(service{endpoints: ready(L1, Rm)})
	s.each(func(w way) {
		w.from(c1).times(8).to(v.cluster(w)).reach(L1, Rm).seen(w.addr(c1))
		w.from(X).times(8).to(v.cluster(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
		w.from(N).times(8).to(v.cluster(w)).reach(L1, Rm).seen(w.nodeAddrs()...)
	})
}

func TestStatement57ExternalIPsAreSwitchedOff(t *testing.T) {
	s := begin(t)
	s.flags("--feature-gates", "AllowServiceExternalIPs=false")
	v := s.service(service{endpoints: ready(L1), external: true})
	s.each(func(w way) {
		w.from(c1).to(v.cluster(w)).reach(L1)
		w.from(c1).unserved(v.ext(w))
	})
}

func TestStatement76NodePortAddressesThatCoverClusterIPs(t *testing.T) {
	s := begin(t)
	s.flags("--nodeport-addresses", "10.0.0.0/8,fd00::/8")
	v := s.service(service{endpoints: ready(L1, Rm), nodePort: true})
	s.each(func(w way) {
		w.from(c1).times(4).to(v.nodePortAt(lab.Host(N).BridgeAddr(w.f))).reach(L1, Rm)
		w.from(c1).to(v.nodePortAt(v.clusterIP(w.f))).refused()
	})
}
