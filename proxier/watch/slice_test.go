package watch

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ptr[T any](v T) *T { return &v }

// webSlice is a slice of web with one port and these endpoints.
func webSlice(endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8080)), Protocol: ptr(corev1.ProtocolTCP)}},
		Endpoints:   endpoints,
	}
}

// at is an endpoint of which only the address is known.
func at(addresses ...string) discoveryv1.Endpoint { return discoveryv1.Endpoint{Addresses: addresses} }

// ready is what at means, on port http.
func ready(addr string) plan.Endpoint {
	return plan.Endpoint{PortName: "http", Protocol: ipvsutil.TCP, Addr: netip.MustParseAddrPort(addr), Ready: true, Serving: true}
}

func TestSlice(t *testing.T) {
	conditions := func(ready, serving, terminating *bool) discoveryv1.Endpoint {
		e := at("10.244.1.10")
		e.Conditions = discoveryv1.EndpointConditions{Ready: ready, Serving: serving, Terminating: terminating}
		return e
	}
	with := func(ready, serving, terminating bool) plan.Endpoint {
		return plan.Endpoint{PortName: "http", Protocol: ipvsutil.TCP, Addr: netip.MustParseAddrPort("10.244.1.10:8080"),
			Ready: ready, Serving: serving, Terminating: terminating}
	}
	hinted := at("10.244.1.10")
	hinted.NodeName = ptr("node-1")
	hinted.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "a"}, {Name: "b"}},
		ForNodes: []discoveryv1.ForNode{{Name: "node-1"}}}
	hintedWant := ready("10.244.1.10:8080")
	hintedWant.NodeName, hintedWant.Zones, hintedWant.Nodes = "node-1", []string{"a", "b"}, []string{"node-1"}

	tests := []struct {
		name     string
		in       *discoveryv1.EndpointSlice
		edit     func(*discoveryv1.EndpointSlice)
		want     []plan.Endpoint
		problems []string
	}{
		{name: "Statement24 nothing said", in: webSlice(at("10.244.1.10")), want: []plan.Endpoint{ready("10.244.1.10:8080")}},
		{name: "not ready", in: webSlice(conditions(ptr(false), nil, nil)), want: []plan.Endpoint{with(false, true, false)}},
		{name: "terminating and serving", in: webSlice(conditions(ptr(false), ptr(true), ptr(true))), want: []plan.Endpoint{with(false, true, true)}},
		{name: "terminating, not serving", in: webSlice(conditions(ptr(false), ptr(false), ptr(true))), want: []plan.Endpoint{with(false, false, true)}},
		{name: "Statement25 ready and terminating", in: webSlice(conditions(ptr(true), ptr(true), ptr(true))), want: []plan.Endpoint{with(true, true, true)}},
		{name: "node and hints", in: webSlice(hinted), want: []plan.Endpoint{hintedWant}},
		{name: "only the first address counts", in: webSlice(at("10.244.1.10", "10.244.1.11")), want: []plan.Endpoint{ready("10.244.1.10:8080")}},
		{name: "sorted", in: webSlice(at("10.244.2.10"), at("10.244.1.10")),
			want: []plan.Endpoint{ready("10.244.1.10:8080"), ready("10.244.2.10:8080")}},
		{name: "Statement29 no address, no port name, no port", in: webSlice(at(), at("10.244.1.10")),
			edit: func(s *discoveryv1.EndpointSlice) {
				s.Ports = append(s.Ports, discoveryv1.EndpointPort{Port: ptr(int32(1))}, discoveryv1.EndpointPort{Name: ptr("x")})
			},
			want: []plan.Endpoint{ready("10.244.1.10:8080")}},
		{name: "bad ports", in: webSlice(at("10.244.1.10")),
			edit: func(s *discoveryv1.EndpointSlice) {
				for _, n := range []int32{0, 70000, -1} {
					s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: ptr("p"), Port: ptr(n)})
				}
				s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: ptr("q"), Port: ptr(int32(1)), Protocol: ptr(corev1.Protocol("icmp"))})
			},
			want:     []plan.Endpoint{ready("10.244.1.10:8080")},
			problems: []string{"port p: port 0 is not", "port p: port 70000", "port p: port -1", "port q: protocol icmp is unknown"}},
		{name: "protocol by default", in: webSlice(at("10.244.1.10")),
			edit: func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = nil }, want: []plan.Endpoint{ready("10.244.1.10:8080")}},
		{name: "canonical addresses", in: webSlice(at("010.244.001.010"), at("::ffff:10.244.1.11")),
			want: []plan.Endpoint{ready("10.244.1.10:8080"), ready("10.244.1.11:8080")}},
		{name: "unusable addresses", in: webSlice(at("0.0.0.0"), at("127.0.0.1"), at("224.0.0.1"), at("169.254.1.1"), at("fd00::1"),
			at("255.255.255.255"), at("x"), at("10.244.1.10")),
			want: []plan.Endpoint{ready("10.244.1.10:8080")},
			problems: []string{"endpoint 0.0.0.0: is the unspecified", "loopback", "multicast", "link-local", "fd00::1: is not an IPv4 address, as addressType",
				"broadcast", "endpoint x: is not an IP"}},
		{name: "IPv6", in: webSlice(at("FD44:0::10"), at("::"), at("::1"), at("ff02::1"), at("fe80::1"), at("10.244.1.10"), at("::ffff:10.244.1.10")),
			edit:     func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 },
			want:     []plan.Endpoint{ready("[fd44::10]:8080")},
			problems: []string{"unspecified", "loopback", "multicast", "link-local", "10.244.1.10: is not an IPv6", "::ffff:10.244.1.10: is not an IPv6"}},
		{name: "FQDN", in: webSlice(at("a.example")), edit: func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN },
			problems: []string{"addressType: FQDN is not served"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.edit != nil {
				test.edit(test.in)
			}
			r := &reports{object: "EndpointSlice default/web-1"}
			got := endpoints(test.in, r)
			if len(got) == 0 {
				got = nil
			}
			compareValues(t, test.want, got)
			wantProblems(t, r.problems(), test.problems)
		})
	}
}

func TestSliceOwner(t *testing.T) {
	r := new(reports)
	if owner, ok := sliceOwner(webSlice(), r); !ok || owner.String() != "default/web" {
		t.Errorf("owner %v, %v", owner, ok)
	}
	headless := webSlice()
	headless.Labels[labelHeadless] = ""
	if _, ok := sliceOwner(headless, r); ok {
		t.Error("Statement19: a slice with the headless label has an owner")
	}
	wantProblems(t, r.problems(), nil)
	lonely := webSlice()
	lonely.Labels = nil
	if _, ok := sliceOwner(lonely, r); ok {
		t.Error("a slice without a label has an owner")
	}
	wantProblems(t, r.problems(), []string{"belongs to no Service"})
}

// TestStatement26: of two endpoints with one address the one that is not
// terminating counts, whichever comes first.
func TestStatement26(t *testing.T) {
	running, ending := ready("10.244.1.10:8080"), ready("10.244.1.10:8080")
	ending.Ready, ending.Terminating = false, true
	ending.NodeName = "node-2"
	notReady := ready("10.244.1.10:8080")
	notReady.Ready = false
	otherPort, otherName := ready("10.244.1.10:9090"), ready("10.244.1.10:8080")
	otherName.PortName = "admin"

	compareValues(t, []plan.Endpoint{running}, merge([]plan.Endpoint{running, ending}))
	compareValues(t, []plan.Endpoint{running}, merge([]plan.Endpoint{ending, running}))
	compareValues(t, []plan.Endpoint{notReady}, merge([]plan.Endpoint{ending, notReady}))
	compareValues(t, []plan.Endpoint{running}, merge([]plan.Endpoint{notReady, running}))

	// Any order of any list gives the same.
	all := []plan.Endpoint{running, ending, notReady, otherPort, otherName}
	want := []plan.Endpoint{otherName, running, otherPort}
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		mixed := slices.Clone(all)
		random.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		compareValues(t, want, merge(mixed))
	}
}

// TestEqualEndpoints: every field counts.
func TestEqualEndpoints(t *testing.T) {
	base := ready("10.244.1.10:8080")
	edits := map[string]func(*plan.Endpoint){
		"port name":   func(e *plan.Endpoint) { e.PortName = "x" },
		"protocol":    func(e *plan.Endpoint) { e.Protocol = ipvsutil.UDP },
		"address":     func(e *plan.Endpoint) { e.Addr = netip.MustParseAddrPort("10.244.1.11:8080") },
		"node":        func(e *plan.Endpoint) { e.NodeName = "x" },
		"ready":       func(e *plan.Endpoint) { e.Ready = false },
		"serving":     func(e *plan.Endpoint) { e.Serving = false },
		"terminating": func(e *plan.Endpoint) { e.Terminating = true },
		"zones":       func(e *plan.Endpoint) { e.Zones = []string{"a"} },
		"nodes":       func(e *plan.Endpoint) { e.Nodes = []string{"a"} },
	}
	for name, edit := range edits {
		other := base
		edit(&other)
		if equalEndpoints([]plan.Endpoint{base}, []plan.Endpoint{other}) {
			t.Errorf("a different %s is equal", name)
		}
	}
	if !equalEndpoints([]plan.Endpoint{base}, []plan.Endpoint{base}) || equalEndpoints([]plan.Endpoint{base}, nil) {
		t.Error("equality of equal lists, or of lists of different length")
	}
}

func TestNode(t *testing.T) {
	in := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "Node-1", Labels: map[string]string{"topology.kubernetes.io/zone": "a"}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.244.1.0/24", PodCIDRs: []string{"10.244.1.0/24", "fd44:0:0:1::/64", "x"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: "ExternalIP", Address: "198.51.100.2"}, {Type: "Hostname", Address: "node-1"},
			{Type: "InternalIP", Address: "172.30.0.2"}, {Type: "InternalIP", Address: "fd30::2"}, {Type: "InternalIP", Address: "bad"}}},
	}
	want := NodeInfo{Name: "node-1", Zone: "a", IPs: addrs("172.30.0.2", "fd30::2", "198.51.100.2"), PodCIDRs: prefixes("10.244.1.0/24", "fd44:0:0:1::/64")}
	r := &reports{object: "Node node-1"}
	compareValues(t, want, node(in, r))
	wantProblems(t, r.problems(), []string{"Node node-1: address bad", "Node node-1: podCIDR x"})

	in.Spec.Taints = []corev1.Taint{{Key: taintLeaving}}
	if !node(in, new(reports)).Leaving {
		t.Error("a Node with the autoscaler's taint is not leaving")
	}
	in.Spec.Taints, in.DeletionTimestamp = nil, &metav1.Time{}
	if !node(in, new(reports)).Leaving {
		t.Error("a Node that is being deleted is not leaving")
	}
	in.Spec.PodCIDRs = nil
	if got := node(in, new(reports)).PodCIDRs; len(got) != 1 || !strings.HasPrefix(got[0].String(), "10.244.1.0") {
		t.Errorf("podCIDR alone gives %v", got)
	}
}
