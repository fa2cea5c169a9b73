//go:build kernel

package packets

import (
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/e2e/probe"
)

func TestStatement71NodePortOnAllAddresses(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), nodePort: true})
	s.each(func(w way) {
		for _, a := range w.nodeAddrs() {
			w.from(X).times(4).to(v.nodePortAt(a)).reach(L1, Rm).seen(w.nodeAddrs()...)
			w.from(c1).times(4).to(v.nodePortAt(a)).reach(L1, Rm)
			w.from(N).times(4).to(v.nodePortAt(a)).reach(L1, Rm)
		}
	})
}

func TestStatement72NodePortAddresses(t *testing.T) {
	s := begin(t)
	s.flags("--nodeport-addresses", "172.30.0.0/24,fd30::/64")
	v := s.service(service{endpoints: ready(L1, Rm), nodePort: true})
	s.each(func(w way) {
		w.from(X).times(4).to(v.node(w, N)).reach(L1, Rm)
		for _, a := range without(w.nodeAddrs(), w.addr(N)) {
			w.from(X).to(v.nodePortAt(a)).refused()
		}
	})
}

func TestStatement73NodePortAddressesPrimary(t *testing.T) {
	s := begin(t)
	s.flags("--nodeport-addresses", "primary")
	v := s.service(service{endpoints: ready(L1, Rm), nodePort: true})
	s.each(func(w way) {
		w.from(X).times(4).to(v.node(w, N)).reach(L1, Rm)
		for _, a := range without(w.nodeAddrs(), w.addr(N)) {
			w.from(X).to(v.nodePortAt(a)).refused()
		}
	})
}

func TestStatement74NewNodeAddressIsServedWithinASecond(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), nodePort: true})
	s.eachTCP(func(w way) {
		a, bits := netip.MustParseAddr("172.30.0.50"), 24
		if w.f == IPv6 {
			a, bits = netip.MustParseAddr("fd30::50"), 64
		}
		if err := lab.Host(N).AddAddr("eth0", a, bits); err != nil {
			w.Fatal(err)
		}
		w.Cleanup(func() {
			if err := lab.Host(N).RemoveAddr("eth0", a, bits); err != nil {
				w.Error(err)
			}
		})
		call := probe.Call{Protocol: TCP, To: v.nodePortAt(a), Timeout: time.Second}
		// Wanted within a second; an emulated machine may take five times that.
		deadline := time.Now().Add(5 * time.Second)
		for {
			r := lab.Host(X).Probe.Do(call)
			if r.Outcome == probe.OK {
				return
			}
			if time.Now().After(deadline) {
				w.Fatalf("after five seconds: %v", r)
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
}

func TestStatement75NodePortIsNotOnLoopback(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1), nodePort: true})
	s.eachTCP(func(w way) {
		loopback := netip.MustParseAddr("127.0.0.1")
		if w.f == IPv6 {
			loopback = netip.IPv6Loopback()
		}
		w.from(N).to(v.nodePortAt(loopback)).refused()
	})
	for _, device := range []string{"all", "default", "eth0"} {
		name := "net/ipv4/conf/" + device + "/route_localnet"
		if value, err := lab.Host(N).Sysctl(name); err != nil || value != "0" {
			t.Errorf("%s is %q (%v), want 0", name, value, err)
		}
	}
}

func TestStatement77NodePortIsNotOnClusterIPs(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1), nodePort: true})
	s.each(func(w way) {
		w.from(c1).to(v.nodePortAt(v.clusterIP(w.f))).refused()
	})
}

func TestStatement78NodePortOfBothProtocols(t *testing.T) {
	s := begin(t)
	tcp := s.service(service{endpoints: ready(L1), nodePort: true, ports: web[:1]})
	udp := service{endpoints: ready(Rm), nodePort: true, ports: web[1:]}
	udp.change = sameNodePort(tcp)
	second := s.service(udp)
	s.each(func(w way) {
		want := map[probe.Protocol]string{TCP: L1, UDP: Rm}[w.proto]
		w.from(X).times(4).to(tcp.node(w, N)).reach(want)
	})
	s.remove(second)
	s.each(func(w way) {
		if w.proto == UDP {
			w.from(X).to(tcp.node(w, N)).refused()
			return
		}
		w.from(X).times(4).to(tcp.node(w, N)).reach(L1)
	})
}

func TestStatement79NodePortOfSCTP(t *testing.T) {
	s := begin(t)
	s.by([]probe.Protocol{SCTP}, func(w way) {
		for _, pod := range []string{L1, Rm} {
			s.serve(pod, SCTP, netip.AddrPortFrom(w.addr(pod), 8080))
		}
	})
	v := s.service(service{endpoints: ready(L1, Rm), nodePort: true, ports: []servicePort{{"sctp", SCTP, 80, 8080}}})
	s.by([]probe.Protocol{SCTP}, func(w way) {
		w.from(X).times(6).to(v.node(w, N)).reach(L1, Rm).seen(w.nodeAddrs()...)
	})
}

// sameNodePort gives a Service the NodePort of another one.
func sameNodePort(other *service) func(*corev1.Service) {
	return func(o *corev1.Service) { o.Spec.Ports[0].NodePort = int32(other.nodePortOf(80)) }
}
