package takeover

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// service is a dual-stack Service of type LoadBalancer with TCP and UDP at port 80; its
// addresses and its NodePort follow from its number.
type service struct {
	number int
	// local is externalTrafficPolicy Local.
	local bool
	pods  []string
}

// podPort is where the pods answer, by TCP and UDP.
const podPort = 8080

func (s service) name() string                   { return fmt.Sprintf("s%d", s.number) }
func (s service) nodePort() uint16               { return 30100 + uint16(s.number) }
func (s service) at(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, 80) }

func (s service) clusterIP(f testbed.Family) netip.Addr {
	return s.address(f, "10.96.2.%d", "fd96::2:%d")
}

func (s service) lbIP(f testbed.Family) netip.Addr {
	return s.address(f, "203.0.113.%d", "fd20:113::2:%d")
}

func (s service) address(f testbed.Family, v4, v6 string) netip.Addr {
	if f == testbed.IPv6 {
		v4 = v6
	}
	return netip.MustParseAddr(fmt.Sprintf(v4, s.number))
}

func (s service) objects(lab *testbed.Lab) []runtime.Object {
	dual := corev1.IPFamilyPolicyRequireDualStack
	o := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: s.name()},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, IPFamilyPolicy: &dual,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
		},
	}
	if s.local {
		o.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		o.Spec.HealthCheckNodePort = 30200 + int32(s.number)
	}
	var slices []runtime.Object
	for _, f := range testbed.Families() {
		o.Spec.ClusterIPs = append(o.Spec.ClusterIPs, s.clusterIP(f).String())
		o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: s.lbIP(f).String()})
		slices = append(slices, s.slice(lab, f))
	}
	o.Spec.ClusterIP = o.Spec.ClusterIPs[0]
	for _, p := range protocols {
		o.Spec.Ports = append(o.Spec.Ports, corev1.ServicePort{
			Name: strings.ToLower(string(p)), Protocol: p, Port: 80, NodePort: int32(s.nodePort()),
		})
	}
	return append(slices, o)
}

var protocols = []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}

func (s service) slice(lab *testbed.Lab, f testbed.Family) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: s.name() + "-" + strings.ToLower(f.String()),
			Labels: map[string]string{discoveryv1.LabelServiceName: s.name()},
		},
		AddressType: discoveryv1.AddressType(f.String()),
	}
	for _, p := range protocols {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{
			Name: new(strings.ToLower(string(p))), Protocol: new(p), Port: new(int32(podPort)),
		})
	}
	for _, pod := range s.pods {
		slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{lab.Host(pod).Addr(f).String()}, NodeName: new(lab.Host(pod).Node),
			Conditions: discoveryv1.EndpointConditions{Ready: new(true)},
		})
	}
	return slice
}

// The Services: two that are asked all the time; one without endpoints, which other
// proxies refuse; and one that loses an endpoint to which streams lead.
var (
	cluster  = service{number: 1, pods: []string{testbed.PodL1, testbed.PodRm}}
	local    = service{number: 2, pods: []string{testbed.PodL1, testbed.PodRm}, local: true}
	empty    = service{number: 3}
	draining = service{number: 4, pods: []string{testbed.PodL2}}
	drained  = service{number: 4, pods: []string{testbed.PodRm}}
)

// node is the node that changes hands; the others have no proxy.
const node = testbed.Node1

// apply writes Services into the lab's manifests.
func apply(lab *testbed.Lab, services ...service) error {
	for _, s := range services {
		if err := lab.Manifests.Apply(s.name(), s.objects(lab)...); err != nil {
			return err
		}
	}
	return nil
}

// servePods lets the pods answer.
func servePods(lab *testbed.Lab) error {
	for _, pod := range []string{testbed.PodL1, testbed.PodL2, testbed.PodRm} {
		h := lab.Host(pod)
		for _, f := range testbed.Families() {
			for _, p := range []probe.Protocol{probe.TCP, probe.UDP} {
				if _, err := h.Serve(p, netip.AddrPortFrom(h.Addr(f), podPort)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// clients are a pod of the node, a process of it, and a host outside of the cluster.
var clients = []string{testbed.PodC1, node, testbed.Client}

// loops are all kinds from each client to each frontend of the two Services, and the
// streams to the endpoint that leaves.
func loops(lab *testbed.Lab) []*Loop {
	var all []*Loop
	for _, client := range clients {
		h := lab.Host(client)
		for _, f := range testbed.Families() {
			for _, frontend := range append(frontends(lab, f, client), Frontend{
				Name: "ClusterIP, an endpoint that leaves", At: draining.at(draining.clusterIP(f)), Reach: draining.pods,
			}) {
				for _, kind := range Kinds() {
					if kind == Streams || frontend.At.Addr() != draining.clusterIP(f) {
						all = append(all, &Loop{Client: h, Kind: kind, Frontend: frontend, Port: 20000 + uint16(len(all))})
					}
				}
			}
		}
	}
	return all
}

// few are less loops for a slow machine: for each client and frontend one family and a
// stream, and one other kind, by turns.
func few(all []*Loop) []*Loop {
	var some []*Loop
	n := 0
	for i := 0; i < len(all); n++ {
		end := i // the loops of one client, family and frontend
		for end < len(all) && all[end].Client == all[i].Client && all[end].Frontend.At == all[i].Frontend.At {
			end++
		}
		// Five frontends a family: the families take turns.
		if n%2 == 0 {
			some = append(some, all[end-1])
			if end-i > 1 {
				some = append(some, all[i+n/2%3])
			}
		}
		i = end
	}
	return some
}

func frontends(lab *testbed.Lab, f testbed.Family, client string) []Frontend {
	nodePort := netip.AddrPortFrom(lab.Host(node).Addr(f), cluster.nodePort())
	all := []Frontend{
		{"ClusterIP", cluster.at(cluster.clusterIP(f)), cluster.pods},
		{"NodePort", nodePort, cluster.pods},
		{"load balancer", cluster.at(cluster.lbIP(f)), cluster.pods},
		{"load balancer, Local", local.at(local.lbIP(f)), local.pods},
	}
	if client == testbed.Client {
		all[3].Reach = []string{testbed.PodL1}
	}
	return all
}
