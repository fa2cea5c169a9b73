//go:build kernel

package packets

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"kube-ipvs-proxy/e2e/hostile"
	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

const (
	// hostiles is how many hostile Services there are, of two slices or more each.
	hostiles = 200
	// hostileSeed makes the same objects each time.
	hostileSeed = 20261130
)

// TestHostileObjects: of each hostile object what can be served is served and the rest
// refused by name, and nobody else notices: not the good Services, the nodes, the pods.
func TestHostileObjects(t *testing.T) {
	s := begin(t)
	t.Logf("seed %d", hostileSeed)
	all, wanted := hostile.Make(hostileSeed, hostiles, hostile.Endpoint{Node: N, Addr: lab.Host(L1).Addr})
	s.write("hostile-good", wanted.Objects())
	good := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true, nodePort: true})
	for _, host := range []string{N, M} {
		s.eachTCP(func(w way) { s.serve(host, TCP, netip.AddrPortFrom(w.addr(host), 6443)) })
	}
	var objects []runtime.Object
	all = slices.DeleteFunc(all, func(h *hostile.Object) bool { return slices.Contains(h.Harm, hostile.OwnAddress) })
	for _, h := range all {
		objects = append(objects, h.Objects()...)
	}
	stop := s.traffic(good)
	s.write("hostile", objects)
	s.settle()
	s.judge(all)
	s.others(good, wanted)
	s.write("hostile", nil)
	s.settle()
	s.others(good, wanted)
	stop()
	if panics := linesWith("panic"); len(panics) > 0 {
		t.Errorf("%q", panics)
	}
}

// judge wants of each hostile Service what it says.
func (s *scene) judge(all []*hostile.Object) {
	s.Helper()
	lines := strings.Join(lab.Proxy(N).Log().Last(1<<20, func(l string) bool { return strings.Contains(l, "hostile/") }), "\n")
	for _, h := range all {
		name := "hostile/" + h.Service.Name
		if h.Named && !strings.Contains(lines, name) {
			s.Errorf("%s (%v) is not named", name, h.Harm)
		}
		if !h.Served {
			continue
		}
		s.eachQuiet(func(w way) {
			at := netip.AddrPortFrom(h.ClusterIP(w.f), 80)
			if r := lab.Host(c1).Probe.Do(w.call(at)); r.Who != L1 {
				s.Errorf("%s (%v): %v", name, h.Harm, r)
			}
		})
	}
}

// others wants everybody else as ever.
func (s *scene) others(good *service, wanted *hostile.Object) {
	s.Helper()
	s.eachTCP(func(w way) {
		w.from(c1).times(4).to(good.cluster(w)).reach(L1, Rm).seen(w.addr(c1))
		w.from(X).times(4).to(good.node(w, N)).reach(L1, Rm)
		w.from(c1).to(netip.AddrPortFrom(wanted.ClusterIP(w.f), 80)).reach(L1)
		for _, host := range []string{N, M} {
			w.from(X).to(netip.AddrPortFrom(w.addr(host), 6443)).reach(host)
			w.from(N).to(netip.AddrPortFrom(w.addr(host), 6443)).reach(host)
			w.from(c1).to(netip.AddrPortFrom(w.addr(host), 6443)).reach(host)
		}
		w.from(c1).to(netip.AddrPortFrom(w.addr(Rm), 8080)).reach(Rm)
		w.from(N).to(netip.AddrPortFrom(w.addr(Rm), 8080)).reach(Rm)
	})
}

// eachQuiet is eachTCP without tests of their own: there would be hundreds.
func (s *scene) eachQuiet(test func(w way)) {
	for _, f := range testbed.Families() {
		test(way{s.T, f, TCP})
	}
}

func (w way) call(at netip.AddrPort) probe.Call { return probe.Call{Protocol: w.proto, To: at} }
