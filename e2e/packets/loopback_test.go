//go:build kernel

package packets

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/probe"
)

// loopback is the loopback address of the family.
func (w way) loopback() netip.Addr {
	if w.f == IPv6 {
		return netip.IPv6Loopback()
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}

// TestCaseE11NodePortOnLoopback (kubernetes/kubernetes#56320, #67730): with the keyword
// localhost TCP NodePorts are served on loopback addresses; the way goes on as that of
// any process of the node. Without it they are refused, see statement 75.
func TestCaseE11NodePortOnLoopback(t *testing.T) {
	for _, test := range []struct {
		addresses string
		others    bool // addresses of the node serve NodePorts
	}{{"localhost", false}, {"primary,localhost", true}} {
		t.Run(test.addresses, func(t *testing.T) {
			s := begin(t)
			s.flags("--nodeport-addresses", test.addresses)
			v := s.service(service{endpoints: ready(L1, Rm), nodePort: true, externalLocal: test.others})
			s.eachTCP(func(w way) {
				at := v.nodePortAt(w.loopback())
				w.eventually("the listener", func() bool {
					return lab.Host(N).Probe.Do(probe.Call{Protocol: TCP, To: at}).Outcome == probe.OK
				})
				w.from(N).times(8).to(at).reach(L1, Rm).seen(w.nodeAddrs()...)
				if !test.others {
					w.from(X).to(v.node(w, N)).refused()
				}
			})
			s.eachUDP(func(w way) { w.from(N).to(v.nodePortAt(w.loopback())).refused() })
			s.loopbackGoes(v)
		})
	}
}

// loopbackGoes takes the endpoints away under an open stream.
func (s *scene) loopbackGoes(v *service) {
	held := map[bool]*probe.Stream{}
	s.eachTCP(func(w way) { held[w.f == IPv6] = s.hold(N, v.nodePortAt(w.loopback())) })
	v.endpoints = nil
	s.apply(v)
	s.eachTCP(func(w way) {
		at := v.nodePortAt(w.loopback())
		w.eventually("a refusal", func() bool {
			return lab.Host(N).Probe.Do(probe.Call{Protocol: TCP, To: at}).Outcome == probe.Refused
		})
		w.alive(held[w.f == IPv6])
	})
}

// TestCaseE11PortThatIsTaken: a server of the node that has the port keeps it, and is
// told once.
func TestCaseE11PortThatIsTaken(t *testing.T) {
	s := begin(t)
	s.flags("--nodeport-addresses", "primary,localhost")
	v := service{endpoints: ready(L1), nodePort: true, ports: web[:1]}
	v.number = int(lastNumber) + 1
	at := v.nodePortAt(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	s.serve(N, TCP, at)
	w := way{t, IPv4, TCP}
	told := func() int {
		return len(lab.Proxy(N).Log().Last(1000, func(l string) bool {
			return strings.Contains(l, "NodePort on a loopback address") && strings.Contains(l, at.String())
		}))
	}
	s.service(v)
	w.eventually("word of it", func() bool { return told() > 0 })
	w.from(N).times(2).to(at).reach(N)
	time.Sleep(6 * time.Second) // it has been tried again
	if n := told(); n != 1 {
		t.Errorf("told %d times", n)
	}
	way{t, IPv6, TCP}.from(N).to(v.nodePortAt(netip.IPv6Loopback())).reach(L1)
}
