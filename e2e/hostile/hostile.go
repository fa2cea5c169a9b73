// Package hostile makes Services and EndpointSlices that no API server would take, or
// that want what is not theirs, among good ones.
package hostile

import (
	"fmt"
	"math/rand/v2"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kube-ipvs-proxy/e2e/testbed"
)

// Endpoint is the pod that serves all of them, at port 8080.
type Endpoint struct {
	Node string
	Addr func(testbed.Family) netip.Addr
}

func pick(f testbed.Family, v4, v6 string) netip.Addr {
	if f == testbed.IPv4 {
		return netip.MustParseAddr(v4)
	}
	return netip.MustParseAddr(v6)
}

// Object is one Service with its slices, served by one good endpoint unless the harm
// makes that impossible.
type Object struct {
	random  *rand.Rand
	number  int
	Service *corev1.Service
	Slices  []*discoveryv1.EndpointSlice
	Harm    []string // what was done to it
	// Served: its ClusterIPs still answer at port 80. Named: the proxy has to say what of
	// it cannot be served.
	Served, Named bool
}

func newObject(random *rand.Rand, number int, good Endpoint) *Object {
	h := &Object{random: random, number: number, Served: true}
	addresses := []string{h.ClusterIP(testbed.IPv4).String(), h.ClusterIP(testbed.IPv6).String()}
	h.Service = &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "hostile", Name: fmt.Sprintf("h%03d", number)},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: addresses[0], ClusterIPs: addresses,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			Ports:      []corev1.ServicePort{{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	for _, f := range testbed.Families() {
		h.Slices = append(h.Slices, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "hostile", Name: fmt.Sprintf("h%03d-%d", number, f),
				Labels: map[string]string{discoveryv1.LabelServiceName: h.Service.Name},
			},
			AddressType: discoveryv1.AddressType(f.String()),
			Ports:       []discoveryv1.EndpointPort{{Name: new("tcp"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{good.Addr(f).String()}, NodeName: new(good.Node)}},
		})
	}
	return h
}

// ClusterIP is its address.
func (h *Object) ClusterIP(f testbed.Family) netip.Addr {
	return pick(f, fmt.Sprintf("10.96.200.%d", h.number), fmt.Sprintf("fd96::8:%x", h.number))
}

// Objects are the Service and its slices.
func (h *Object) Objects() []runtime.Object {
	objects := []runtime.Object{h.Service}
	for _, s := range h.Slices {
		objects = append(objects, s)
	}
	return objects
}

// spoil does one to three harms.
func (h *Object) spoil() {
	for range 1 + h.random.IntN(3) {
		harm := harms[h.random.IntN(len(harms))]
		harm.do(h)
		h.Harm = append(h.Harm, harm.name)
	}
	for _, a := range h.Service.Spec.ClusterIPs {
		h.Served = h.Served && (a == h.ClusterIP(testbed.IPv4).String() || a == h.ClusterIP(testbed.IPv6).String())
	}
	if len(h.Service.Spec.Ports) == 0 {
		h.Named = false // nothing is wanted, so nothing is refused
	}
	h.Served = h.Served && len(h.Service.Spec.Ports) > 0 && h.Service.Spec.Ports[0].Port == 80
}

// thousandPorts is a Service of which nothing is wrong but its size.
func thousandPorts(random *rand.Rand, number int, good Endpoint) *Object {
	h := newObject(random, number, good)
	h.Harm = []string{"a thousand ports"}
	for i := range 999 {
		name := fmt.Sprintf("p%d", i)
		h.Service.Spec.Ports = append(h.Service.Spec.Ports, corev1.ServicePort{Name: name, Port: int32(1000 + i)})
		for _, s := range h.Slices {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new(name), Port: new(int32(8080))})
		}
	}
	return h
}

// wantedNumber is that of the Service whose addresses hostile ones want.
const wantedNumber = 201

// Make returns n objects, the same for the same seed, and a good Service whose addresses
// some of them want. All have the same good endpoint.
func Make(seed uint64, n int, good Endpoint) (objects []*Object, wanted *Object) {
	random := rand.New(rand.NewPCG(seed, 0))
	wanted = newObject(random, wantedNumber, good)
	objects = []*Object{thousandPorts(random, 1, good)}
	for len(objects) < n {
		h := newObject(random, len(objects)+1, good)
		h.spoil()
		objects = append(objects, h)
	}
	return objects, wanted
}
