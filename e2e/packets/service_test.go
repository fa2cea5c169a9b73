//go:build kernel

package packets

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// counter gives every Service its own number, and so its own addresses.
type counter int

var lastNumber counter

// Addresses for outside come from two ranges, each with half of them for load balancers
// and half for external addresses.
const (
	lastServiceNumber = 254
	ofOneRange        = 127
)

func (c *counter) next() int {
	*c++
	return int(*c)
}

// service is a dual-stack Service with its EndpointSlices. The zero value of a
// field is the API's default.
type service struct {
	number    int           // set by the scene
	ports     []servicePort // nil: web
	endpoints []endpoint
	affinity  time.Duration

	nodePort, loadBalancer, external bool
	externalLocal, internalLocal     bool

	// change has the last word on the Service; nil: none.
	change func(*corev1.Service)
	// slices are used instead of endpoints if not nil; see sliceOf.
	slices func(v *service, f testbed.Family) []*discoveryv1.EndpointSlice
}

// servicePort is a port and the port of the pods behind it.
type servicePort struct {
	name   string
	proto  probe.Protocol
	port   uint16
	target uint16
}

// web is one port for TCP and UDP.
var web = []servicePort{{"tcp", TCP, 80, 8080}, {"udp", UDP, 80, 8080}}

// endpoint is a pod, or a node for one in the node's own network.
type endpoint struct {
	host  string
	state state
}

// state is what the conditions of an endpoint say.
type state struct{ ready, serving, terminating *bool }

var (
	isReady       = state{ready: yes(), serving: yes(), terminating: no()}
	isUnset       = state{}
	isServing     = state{ready: no(), serving: yes(), terminating: yes()} // terminating, but answers
	isTerminating = state{ready: no(), serving: no(), terminating: yes()}
	isUnready     = state{ready: no(), serving: no(), terminating: no()}
	isPublished   = state{ready: yes(), serving: yes(), terminating: yes()} // publishNotReadyAddresses
)

func yes() *bool { return new(true) }
func no() *bool  { return new(false) }

// ready are endpoints that are ready.
func ready(hosts ...string) []endpoint {
	var all []endpoint
	for _, h := range hosts {
		all = append(all, endpoint{h, isReady})
	}
	return all
}

func (v *service) name() string { return fmt.Sprintf("s%03d", v.number) }

func (v *service) servicePorts() []servicePort {
	if v.ports == nil {
		return web
	}
	return v.ports
}

// The addresses of a Service follow from its number.

func (v *service) clusterIP(f testbed.Family) netip.Addr {
	return numbered(f, fmt.Sprintf("10.96.1.%d", v.number), fmt.Sprintf("fd96::1:%x", v.number))
}

func (v *service) lbIP(f testbed.Family) netip.Addr {
	n, v4 := v.outside()
	return numbered(f, fmt.Sprintf("%s.%d", v4, n), fmt.Sprintf("fd20:113::1:%x", v.number))
}

func (v *service) externalIP(f testbed.Family) netip.Addr {
	n, v4 := v.outside()
	return numbered(f, fmt.Sprintf("%s.%d", v4, 255-n), fmt.Sprintf("fd20:113::2:%x", v.number))
}

// outside is the Service's number in a range, and the range of IPv4 without its last part.
func (v *service) outside() (n int, v4 string) {
	if v.number > ofOneRange {
		return v.number - ofOneRange, "198.51.100"
	}
	return v.number, "203.0.113"
}

// nodePortOf is the NodePort of a port; ports of one number have one NodePort.
func (v *service) nodePortOf(port uint16) uint16 {
	return 30000 + uint16((v.number-1)%ofOneRange+1)*20 + port%20
}

func numbered(f testbed.Family, v4, v6 string) netip.Addr {
	if f == IPv4 {
		return netip.MustParseAddr(v4)
	}
	return netip.MustParseAddr(v6)
}

// The frontends, each at the Service's first port.

func (v *service) cluster(w way) netip.AddrPort { return v.at(v.clusterIP(w.f)) }
func (v *service) lb(w way) netip.AddrPort      { return v.at(v.lbIP(w.f)) }
func (v *service) ext(w way) netip.AddrPort     { return v.at(v.externalIP(w.f)) }
func (v *service) at(a netip.Addr) netip.AddrPort {
	return netip.AddrPortFrom(a, v.servicePorts()[0].port)
}

// node is the NodePort at the main address of a node.
func (v *service) node(w way, node string) netip.AddrPort { return v.nodePortAt(w.addr(node)) }

func (v *service) nodePortAt(a netip.Addr) netip.AddrPort {
	return netip.AddrPortFrom(a, v.nodePortOf(v.servicePorts()[0].port))
}

// onPort is another port of the same address.
func onPort(a netip.AddrPort, port uint16) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr(), port)
}

// objects are the Service and its slices.
func (v *service) objects() []runtime.Object {
	objects := []runtime.Object{v.object()}
	for _, f := range testbed.Families() {
		slices := []*discoveryv1.EndpointSlice{v.sliceOf(f, 0, v.servicePorts(), v.endpoints...)}
		if v.slices != nil {
			slices = v.slices(v, f)
		}
		for _, s := range slices {
			objects = append(objects, s)
		}
	}
	return objects
}

func (v *service) object() *corev1.Service {
	dual := corev1.IPFamilyPolicyRequireDualStack
	o := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: v.name()},
		Spec: corev1.ServiceSpec{
			Type:           corev1.ServiceTypeClusterIP,
			ClusterIP:      v.clusterIP(IPv4).String(),
			ClusterIPs:     []string{v.clusterIP(IPv4).String(), v.clusterIP(IPv6).String()},
			IPFamilies:     []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol},
			IPFamilyPolicy: &dual,
		},
	}
	for _, p := range v.servicePorts() {
		port := corev1.ServicePort{Name: p.name, Protocol: corev1.Protocol(p.proto.String()), Port: int32(p.port)}
		if v.nodePort {
			port.NodePort = int32(v.nodePortOf(p.port))
		}
		o.Spec.Ports = append(o.Spec.Ports, port)
	}
	v.setFrontends(o)
	v.setPolicies(o)
	if v.change != nil {
		v.change(o)
	}
	return o
}

func (v *service) setFrontends(o *corev1.Service) {
	if v.nodePort {
		o.Spec.Type = corev1.ServiceTypeNodePort
	}
	if v.loadBalancer {
		o.Spec.Type = corev1.ServiceTypeLoadBalancer
	}
	for _, f := range testbed.Families() {
		if v.loadBalancer {
			o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: v.lbIP(f).String()})
		}
		if v.external {
			o.Spec.ExternalIPs = append(o.Spec.ExternalIPs, v.externalIP(f).String())
		}
	}
}

func (v *service) setPolicies(o *corev1.Service) {
	if v.externalLocal {
		o.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if v.internalLocal {
		local := corev1.ServiceInternalTrafficPolicyLocal
		o.Spec.InternalTrafficPolicy = &local
	}
	if v.affinity > 0 {
		o.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		o.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(v.affinity.Seconds()))},
		}
	}
}

// sliceOf is the n-th slice of a family, with the targets of the ports.
func (v *service) sliceOf(f testbed.Family, n int, ports []servicePort, endpoints ...endpoint) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default",
			Name:      fmt.Sprintf("%s-%d-%d", v.name(), f, n),
			Labels:    map[string]string{discoveryv1.LabelServiceName: v.name()},
		},
		AddressType: discoveryv1.AddressType(f.String()),
	}
	for _, p := range ports {
		s.Ports = append(s.Ports, discoveryv1.EndpointPort{
			Name:     &p.name,
			Protocol: new(corev1.Protocol(p.proto.String())),
			Port:     new(int32(p.target)),
		})
	}
	for _, e := range endpoints {
		h := lab.Host(e.host)
		node := h.Node
		if node == "" {
			node = h.Name()
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
			Addresses:  []string{h.Addr(f).String()},
			Conditions: discoveryv1.EndpointConditions{Ready: e.state.ready, Serving: e.state.serving, Terminating: e.state.terminating},
			NodeName:   &node,
		})
	}
	return s
}
