package hostile

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Addresses that nothing may serve, and such that are served for their ports alone.
var (
	unfitAddresses = []string{
		"127.0.0.1", "::1", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255", "169.254.169.254",
		"fe80::1", "10.0.0.1/24", "fe80::1%eth0", "nonsense", "300.1.1.1",
		strings.Repeat("1", 5000),
	}
	ownedAddresses = []string{"::ffff:10.0.0.1", "010.0.0.1", "172.30.0.2", "fd30::2", "172.30.0.3", "fd30::3", "172.30.0.5", "10.244.2.10", "fd44:0:0:2::10"}
)

// OwnAddress is the harm of a ClusterIP that is the address of the first node. That node
// refuses it; the others bind it like any ClusterIP, and lose sight of that node: they
// know no Node but their own, and an API server gives no such address.
const OwnAddress = "the node's own address"

func (h *Object) pick(list []string) string { return list[h.random.IntN(len(list))] }

// harms are the ways to spoil an object.
var harms = []struct {
	name string
	do   func(h *Object)
}{
	{"external address", func(h *Object) {
		h.Service.Spec.ExternalIPs = []string{h.pick(unfitAddresses), h.pick(ownedAddresses), h.pick(unfitAddresses)}
		h.Named = true
	}},
	{"load balancer's address", func(h *Object) {
		h.Service.Spec.Type = corev1.ServiceTypeLoadBalancer
		for _, ip := range []string{h.pick(unfitAddresses), h.pick(ownedAddresses), h.pick(ownedAddresses)} {
			h.Service.Status.LoadBalancer.Ingress = append(h.Service.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip})
		}
		h.Named = true
	}},
	{"duplicate addresses", func(h *Object) {
		a := h.pick(ownedAddresses)
		h.Service.Spec.ExternalIPs = []string{a, a, a}
		h.Service.Spec.ClusterIPs = append(h.Service.Spec.ClusterIPs, h.Service.Spec.ClusterIPs...)
	}},
	{"families that are none", func(h *Object) {
		h.Service.Spec.IPFamilies = []corev1.IPFamily{"IPv5", corev1.IPv6Protocol, corev1.IPv6Protocol}
		h.Served, h.Named = false, true
	}},
	{"unfit cluster address", func(h *Object) {
		a := h.pick(unfitAddresses)
		h.Service.Spec.ClusterIP, h.Service.Spec.ClusterIPs = a, []string{a}
		h.Served, h.Named = false, true
	}},
	{OwnAddress, func(h *Object) {
		h.Service.Spec.ClusterIP, h.Service.Spec.ClusterIPs = "172.30.0.2", []string{"172.30.0.2", "fd30::2"}
		h.Served, h.Named = false, true
	}},
	{"no port", func(h *Object) { h.Service.Spec.Ports, h.Served = nil, false }},
	{"impossible ports", func(h *Object) {
		for _, n := range []int32{0, -1, 65536, -2147483648, 2147483647} {
			h.Service.Spec.Ports = append(h.Service.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint(n), Port: n, NodePort: n})
		}
		h.Named = true
	}},
	{"impossible NodePort", func(h *Object) {
		h.Service.Spec.Type = corev1.ServiceTypeNodePort
		for i := range h.Service.Spec.Ports {
			h.Service.Spec.Ports[i].NodePort = []int32{-1, 65536, 1 << 30}[h.random.IntN(3)]
		}
		h.Service.Spec.HealthCheckNodePort = -7
		h.Named = true
	}},
	{"unknown protocol", func(h *Object) {
		h.Service.Spec.Ports = append(h.Service.Spec.Ports, corev1.ServicePort{Name: "icmp", Protocol: "ICMP", Port: 7})
		h.Named = true
	}},
	{"giant names", func(h *Object) {
		giant := strings.Repeat("x", 3000)
		h.Service.Spec.Ports = append(h.Service.Spec.Ports, corev1.ServicePort{Name: giant, Port: 81})
		h.Service.Annotations = map[string]string{giant[:500]: giant, "kube-ipvs-proxy/scheduler": giant}
		h.Named = true
	}},
	{"hints for unknown zones", func(h *Object) {
		for _, s := range h.Slices {
			s.Endpoints[0].Hints = &discoveryv1.EndpointHints{
				ForZones: []discoveryv1.ForZone{{Name: "mars"}, {Name: ""}}, ForNodes: []discoveryv1.ForNode{{Name: "nobody"}},
			}
		}
	}},
	{"endpoints nowhere", func(h *Object) {
		for _, s := range h.Slices {
			for range 5 {
				s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{h.pick(unfitAddresses)}})
			}
		}
		h.Named = true
	}},
	{"endpoints of the other family", func(h *Object) {
		h.Slices[0].Endpoints = append(h.Slices[0].Endpoints, h.Slices[1].Endpoints...)
		h.Named = true
	}},
	{"the same endpoint many times", func(h *Object) {
		for _, s := range h.Slices {
			for range 50 {
				s.Endpoints = append(s.Endpoints, s.Endpoints[0])
			}
		}
	}},
	{"slices without sense", func(h *Object) {
		for _, ports := range [][]discoveryv1.EndpointPort{nil, {{}}, {{Name: new("tcp"), Port: new(int32(-1))}}, {{Name: new("tcp"), Port: new(int32(1 << 20))}}} {
			s := h.Slices[0].DeepCopy()
			s.Name += fmt.Sprintf("-%d", len(h.Slices))
			s.Ports, s.AddressType = ports, discoveryv1.AddressType([]string{"IPv4", "FQDN", "IPX"}[h.random.IntN(3)])
			h.Slices = append(h.Slices, s)
		}
	}},
	{"policies that are none", func(h *Object) {
		h.Service.Spec.ExternalTrafficPolicy, h.Service.Spec.SessionAffinity = "Nowhere", "Forever"
		h.Service.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicy(""))
		h.Service.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(-5))}}
	}},
	{"ranges without sense", func(h *Object) {
		h.Service.Spec.LoadBalancerSourceRanges = []string{"nonsense", "10.0.0.0/99", "", "::ffff:0:0/96"}
		h.Named = true
	}},
	{"an address of a good Service", func(h *Object) {
		h.Service.Spec.ExternalIPs = []string{"10.96.200.201", "fd96::8:c9"} // see Wanted
		h.Named = true
	}},
}
