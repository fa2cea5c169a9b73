//go:build kernel

package packets

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-ipvs-proxy/e2e/testbed"
)

// conditions is a test in which c1 reaches exactly the hosts that the conditions
// of the endpoints allow.
func conditions(t *testing.T, endpoints []endpoint, reach ...string) {
	s := begin(t)
	v := s.service(service{endpoints: endpoints})
	s.each(func(w way) { w.from(c1).times(8).to(v.cluster(w)).reach(reach...) })
}

func TestStatement21ReadyComesBeforeServing(t *testing.T) {
	conditions(t, []endpoint{{L1, isReady}, {Rm, isServing}}, L1)
}

func TestStatement22ServingIsUsedWhenNoneIsReady(t *testing.T) {
	conditions(t, []endpoint{{L1, isServing}, {Rm, isServing}}, L1, Rm)
}

func TestStatement23TerminatingAloneIsNotUsed(t *testing.T) {
	conditions(t, []endpoint{{L1, isTerminating}, {Rm, isServing}}, Rm)
}

func TestStatement24UnsetConditionsMeanReady(t *testing.T) {
	conditions(t, []endpoint{{L1, isUnset}, {Rm, isServing}}, L1)
}

func TestStatement25ReadyAndTerminatingIsReady(t *testing.T) {
	conditions(t, []endpoint{{L1, isPublished}, {Rm, isReady}}, L1, Rm)
}

func TestStatement26ReadyWinsAmongTwins(t *testing.T) {
	twins := [][2]state{{isServing, isReady}, {isReady, isServing}, {isTerminating, isReady}, {isReady, isTerminating}}
	s := begin(t)
	v := s.service(service{})
	for _, states := range twins {
		v.slices = func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
			return []*discoveryv1.EndpointSlice{
				v.sliceOf(f, 0, web, endpoint{L1, states[0]}),
				v.sliceOf(f, 1, web, endpoint{L1, states[1]}, endpoint{Rm, isReady}),
			}
		}
		s.apply(v)
		s.each(func(w way) { w.from(c1).times(8).to(v.cluster(w)).reach(L1, Rm) })
	}
}

// crowd is a range of addresses that all are L1, for Services with more
// endpoints than the lab has pods.
var crowd = map[testbed.Family]netip.Prefix{
	IPv4: netip.MustParsePrefix("10.244.200.0/22"),
	IPv6: netip.MustParsePrefix("fd44:0:0:c8::/64"),
}

func TestStatement27EndpointsOfManySlices(t *testing.T) {
	const slicesOf = 10
	each := map[testbed.Family]int{IPv4: 100, IPv6: 20} // every endpoint is called: once at full size will do
	s := begin(t)
	member := map[testbed.Family][]netip.Addr{}
	for _, f := range testbed.Families() {
		if err := lab.Host(L1).OwnRange(crowd[f]); err != nil {
			t.Fatal(err)
		}
		if err := lab.Host(N).Route(crowd[f], "cbr0", lab.Host(L1).Addr(f)); err != nil {
			t.Fatal(err)
		}
		for a := crowd[f].Addr().Next(); len(member[f]) < slicesOf*each[f]; a = a.Next() {
			member[f] = append(member[f], a)
		}
	}
	s.eachTCP(func(w way) {
		s.serve(L1, TCP, netip.AddrPortFrom(w.everyAddr(), 7070))
	})
	ports := []servicePort{{"tcp", TCP, 80, 7070}}
	from := 0 // the first slice that is there
	v := s.service(service{ports: ports, slices: func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
		var all []*discoveryv1.EndpointSlice
		for n := from; n < slicesOf; n++ {
			one := v.sliceOf(f, n, ports)
			for _, a := range member[f][n*each[f] : (n+1)*each[f]] {
				one.Endpoints = append(one.Endpoints, discoveryv1.Endpoint{Addresses: []string{a.String()}, NodeName: new(string(N))})
			}
			all = append(all, one)
		}
		return all
	}})
	check := func(w way, want []netip.Addr) {
		seen := map[netip.Addr]bool{}
		calls := len(want) * patience(12) // a thousand are all met by chance, and the client has the ports
		for _, r := range w.from(c1).times(calls).to(v.cluster(w)).reach(L1).results {
			seen[r.Local.Addr()] = true
		}
		missing := slices.DeleteFunc(slices.Clone(want), func(a netip.Addr) bool { return seen[a] })
		if len(missing) > 0 || len(seen) != len(want) {
			w.Errorf("%d calls reached %d endpoints, want %d; not reached: %v", calls, len(seen), len(want), missing[:min(5, len(missing))])
		}
	}
	s.eachTCP(func(w way) { check(w, member[w.f]) })
	from = 1
	s.apply(v)
	s.eachTCP(func(w way) { check(w, member[w.f][each[w.f]:]) })
}

func TestStatement28FamiliesAreIndependent(t *testing.T) {
	s := begin(t)
	pods := map[testbed.Family][]endpoint{IPv4: ready(L1), IPv6: ready(Rm)}
	v := s.service(service{slices: func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
		if pods[f] == nil {
			return nil
		}
		return []*discoveryv1.EndpointSlice{v.sliceOf(f, 0, web, pods[f]...)}
	}})
	check := func() {
		s.each(func(w way) {
			if pods[w.f] == nil {
				w.from(c1).to(v.cluster(w)).refused()
				return
			}
			w.from(c1).times(6).to(v.cluster(w)).reach(pods[w.f][0].host)
		})
	}
	check()
	for _, gone := range testbed.Families() {
		was := pods[gone]
		pods[gone] = nil
		s.apply(v)
		check()
		pods[gone] = was
	}
}

func TestStatement29BrokenPartsOfASliceAreSkipped(t *testing.T) {
	s := begin(t)
	v := s.service(service{slices: func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
		noName := v.sliceOf(f, 0, web, ready(L2)...)
		noPort := v.sliceOf(f, 1, web, ready(L2)...)
		for i := range web {
			noName.Ports[i].Name = nil
			noPort.Ports[i].Port = nil
		}
		noAddress := v.sliceOf(f, 2, web, ready(L2, Rm)...)
		noAddress.Endpoints[0].Addresses = nil
		return []*discoveryv1.EndpointSlice{noName, noPort, noAddress, v.sliceOf(f, 3, web, ready(L1)...)}
	}})
	s.each(func(w way) { w.from(c1).times(8).to(v.cluster(w)).reach(L1, Rm) })
}

// hints is a test in which c1 on N (zone z1) reaches exactly the hosts that the
// hints of L1, L2 and Rm allow. A hint is a zone, or a node with "node:" before it.
func hints(t *testing.T, hint map[string][]string, reach ...string) {
	s := begin(t)
	var pods []string
	for _, pod := range []string{L1, L2, Rm} {
		if hint[pod] != nil {
			pods = append(pods, pod)
		}
	}
	v := s.service(service{slices: func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
		slice := v.sliceOf(f, 0, web, ready(pods...)...)
		for i, pod := range pods {
			slice.Endpoints[i].Hints = hintsOf(hint[pod])
		}
		return []*discoveryv1.EndpointSlice{slice}
	}})
	s.each(func(w way) { w.from(c1).times(9).to(v.cluster(w)).reach(reach...) })
}

func hintsOf(names []string) *discoveryv1.EndpointHints {
	var h discoveryv1.EndpointHints
	for _, n := range names {
		var node string
		if _, err := fmt.Sscanf(n, "node:%s", &node); err == nil {
			h.ForNodes = append(h.ForNodes, discoveryv1.ForNode{Name: node})
			continue
		}
		h.ForZones = append(h.ForZones, discoveryv1.ForZone{Name: n})
	}
	return &h
}

func TestStatement31ZoneHints(t *testing.T) {
	hints(t, map[string][]string{L1: {"z1"}, Rm: {"z2"}}, L1)
}

func TestStatement32OneMissingZoneHintDisablesHints(t *testing.T) {
	hints(t, map[string][]string{L1: {"z1"}, Rm: {}}, L1, Rm)
}

func TestStatement33NoHintForOurZoneDisablesHints(t *testing.T) {
	hints(t, map[string][]string{L1: {"z2"}, Rm: {"z2"}}, L1, Rm)
}

func TestStatement35NodeHintsComeBeforeZoneHints(t *testing.T) {
	hints(t, map[string][]string{L1: {"z1", "node:" + N}, L2: {"z1", "node:" + M}, Rm: {"z1", "node:" + M}}, L1)
}

func TestStatement36ZoneHintsWhenNoNodeHintNamesUs(t *testing.T) {
	hints(t, map[string][]string{L1: {"z1", "node:" + M}, L2: {"z1", "node:" + M}, Rm: {"z2", "node:" + M}}, L1, L2)
}

func TestStatement37UnreadyEndpointNeedsNoHint(t *testing.T) {
	s := begin(t)
	v := s.service(service{slices: func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
		slice := v.sliceOf(f, 0, web, endpoint{L1, isReady}, endpoint{L2, isUnready}, endpoint{Rm, isReady})
		slice.Endpoints[0].Hints = hintsOf([]string{"z1"})
		slice.Endpoints[2].Hints = hintsOf([]string{"z2"})
		return []*discoveryv1.EndpointSlice{slice}
	}})
	s.each(func(w way) { w.from(c1).times(6).to(v.cluster(w)).reach(L1) })
}

func TestStatement38ServingEndpointsIgnoreTopology(t *testing.T) {
	s := begin(t)
	v := s.service(service{slices: func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
		slice := v.sliceOf(f, 0, web, endpoint{L1, isUnready}, endpoint{L2, isServing}, endpoint{Rm, isServing})
		slice.Endpoints[0].Hints = hintsOf([]string{"z1"})
		return []*discoveryv1.EndpointSlice{slice}
	}})
	s.each(func(w way) { w.from(c1).times(6).to(v.cluster(w)).reach(L2, Rm) })
}

// zoneOfN changes the zone label of N; empty removes it.
func (s *scene) zoneOfN(zone string) {
	s.Helper()
	err := lab.ApplyNodes(func(n *corev1.Node) {
		switch {
		case n.Name != N:
		case zone == "":
			delete(n.Labels, corev1.LabelTopologyZone)
		default:
			n.Labels[corev1.LabelTopologyZone] = zone
		}
	})
	if err != nil {
		s.Fatal(err)
	}
	s.settle()
}

func TestStatement34And39ZoneLabelOfTheNode(t *testing.T) {
	s := begin(t)
	v := s.service(service{slices: func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice {
		slice := v.sliceOf(f, 0, web, ready(L1, Rm)...)
		slice.Endpoints[0].Hints = hintsOf([]string{"z1"})
		slice.Endpoints[1].Hints = hintsOf([]string{"z2"})
		return []*discoveryv1.EndpointSlice{slice}
	}})
	t.Cleanup(func() { s.zoneOfN("z1") })
	for _, c := range []struct {
		zone  string
		reach []string
	}{{"z1", []string{L1}}, {"z2", []string{Rm}}, {"", []string{L1, Rm}}} {
		s.zoneOfN(c.zone)
		s.each(func(w way) { w.from(c1).times(6).to(v.cluster(w)).reach(c.reach...) })
	}
}
