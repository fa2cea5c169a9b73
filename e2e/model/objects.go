package model

import (
	"fmt"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"kube-ipvs-proxy/e2e/testbed"
)

// Pods are the endpoints that there can be.
func Pods() []string {
	return []string{testbed.PodL1, testbed.PodL2, testbed.PodRm, testbed.PodR3, testbed.PodC2}
}

// Condition is what an endpoint says of itself.
type Condition struct{ Ready, Serving, Terminating bool }

// ready is the Condition of an endpoint that serves.
var ready = Condition{Ready: true, Serving: true}

// conditions are those that a random endpoint may have.
var conditions = []Condition{ready, ready, {Serving: true, Terminating: true}, {Terminating: true}, {}}

// TargetPorts are where the pods' servers have to listen.
func TargetPorts() []uint16 { return []uint16{8080, 8443, 9090} }

// Service is a Service with its slices. Its addresses follow from its number, which is
// from 1 to 200; only those below 100 may have addresses beside the ClusterIP.
type Service struct {
	Number    int
	Kind      corev1.ServiceType
	Ports     int // the first so many of TCP and UDP at 80, TCP at 443, SCTP at 80
	Families  []testbed.Family
	Endpoints map[string]Condition // by pod
	// ExternalLocal and InternalLocal are the traffic policies.
	ExternalLocal, InternalLocal bool
	Affinity                     time.Duration // zero: none
	// External counts external addresses; the second one is the same for all Services.
	External   int
	Ranges     []string // of sources
	Target     uint16   // port of the pods
	OtherProxy bool     // labelled for another proxy
	Scheduler  string   // empty: the proxy's
	Weights    string   // as the annotation has them
}

// servicePorts are the ports of Services; two of them are of one number.
var servicePorts = []struct {
	name  string
	proto corev1.Protocol
	port  int32
}{{"tcp", corev1.ProtocolTCP, 80}, {"udp", corev1.ProtocolUDP, 80}, {"more", corev1.ProtocolTCP, 443}, {"sctp", corev1.ProtocolSCTP, 80}}

// NewService is one of average wishes.
func NewService(number int) *Service {
	return &Service{
		Number: number, Kind: corev1.ServiceTypeClusterIP, Ports: 2, Families: testbed.Families(), Target: 8080,
		Endpoints: map[string]Condition{testbed.PodL1: ready, testbed.PodRm: ready},
	}
}

// Name is that of the Service, and of its manifest.
func (s *Service) Name() string { return fmt.Sprintf("s%03d", s.Number) }

// ClusterIP is the one of a family.
func (s *Service) ClusterIP(f testbed.Family) string {
	return of(f, fmt.Sprintf("10.96.2.%d", s.Number), fmt.Sprintf("fd96::2:%x", s.Number))
}

// LoadBalancerIP is the one of a family, for the kind LoadBalancer.
func (s *Service) LoadBalancerIP(f testbed.Family) string {
	return of(f, fmt.Sprintf("203.0.113.%d", s.Number), fmt.Sprintf("fd20:113::1:%x", s.Number))
}

// ExternalIP is the n-th of a family, of External.
func (s *Service) ExternalIP(f testbed.Family, n int) string {
	if n > 0 {
		return of(f, "203.0.113.250", "fd20:113::250")
	}
	return of(f, fmt.Sprintf("203.0.113.%d", 100+s.Number), fmt.Sprintf("fd20:113::2:%x", s.Number))
}

func of(f testbed.Family, v4, v6 string) string {
	if f == testbed.IPv4 {
		return v4
	}
	return v6
}

// NodePort is the NodePort of a port number.
func (s *Service) NodePort(port int32) int32 { return 30000 + int32(s.Number)*20 + port%20 }

// Change makes one random change and says which.
func (s *Service) Change(random *rand.Rand) string {
	flip := func() bool { return random.IntN(2) == 0 }
	switch random.IntN(14) {
	case 0:
		s.Kind = []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer}[random.IntN(3)]
		return "kind " + string(s.Kind)
	case 1:
		s.Ports = 1 + random.IntN(len(servicePorts))
		return fmt.Sprintf("%d ports", s.Ports)
	case 2:
		s.Families = [][]testbed.Family{testbed.Families(), {testbed.IPv4}, {testbed.IPv6}}[random.IntN(3)]
		return fmt.Sprintf("families %v", s.Families)
	case 3:
		s.ExternalLocal = flip()
		return fmt.Sprint("externalTrafficPolicy Local: ", s.ExternalLocal)
	case 4:
		s.InternalLocal = flip()
		return fmt.Sprint("internalTrafficPolicy Local: ", s.InternalLocal)
	case 5:
		s.Affinity = []time.Duration{0, 10 * time.Second, 3 * time.Hour}[random.IntN(3)]
		return fmt.Sprint("affinity ", s.Affinity)
	case 6:
		s.External = random.IntN(3)
		return fmt.Sprintf("%d external addresses", s.External)
	case 7:
		s.Ranges = [][]string{nil, {"172.30.0.5/32", "fd30::5/128"}, {"10.0.0.0/8", "172.30.0.0/16", "fd44::/48"}, {"0.0.0.0/0"}}[random.IntN(4)]
		return fmt.Sprint("source ranges ", s.Ranges)
	case 8:
		s.Target = []uint16{8080, 8443, 9090}[random.IntN(3)]
		return fmt.Sprint("target port ", s.Target)
	case 9:
		s.OtherProxy = random.IntN(4) == 0
		return fmt.Sprint("of another proxy: ", s.OtherProxy)
	case 10:
		s.Scheduler = []string{"", "wrr", "sh"}[random.IntN(3)]
		s.Weights = []string{"", "10.244.1.10=3,fd44:0:0:2::10=0", "10.244.2.10=0"}[random.IntN(3)]
		return fmt.Sprintf("scheduler %q weights %q", s.Scheduler, s.Weights)
	}
	for _, pod := range Pods() {
		switch random.IntN(3) {
		case 0:
			delete(s.Endpoints, pod)
		case 1:
			s.Endpoints[pod] = conditions[random.IntN(len(conditions))]
		}
	}
	return fmt.Sprint("endpoints ", s.Endpoints)
}

// Objects are the Service and its slices.
func (s *Service) Objects(network *testbed.Lab) []runtime.Object {
	objects := []runtime.Object{s.object()}
	for _, f := range s.Families {
		objects = append(objects, s.slice(network, f))
	}
	return objects
}

func (s *Service) object() *corev1.Service {
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: s.Name(), Annotations: map[string]string{},
		// The higher number is the older one.
		CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, 0, -s.Number, 0, time.UTC)),
	}}
	if s.OtherProxy {
		o.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "other"}
	}
	if s.Scheduler != "" {
		o.Annotations["kube-ipvs-proxy/scheduler"] = s.Scheduler
	}
	if s.Weights != "" {
		o.Annotations["kube-ipvs-proxy/weights"] = s.Weights
	}
	o.Spec.Type = s.Kind
	for _, f := range s.Families {
		o.Spec.IPFamilies = append(o.Spec.IPFamilies, corev1.IPFamily(f.String()))
		o.Spec.ClusterIPs = append(o.Spec.ClusterIPs, s.ClusterIP(f))
		for n := range s.External {
			o.Spec.ExternalIPs = append(o.Spec.ExternalIPs, s.ExternalIP(f, n))
		}
		if s.Kind == corev1.ServiceTypeLoadBalancer {
			o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: s.LoadBalancerIP(f)})
		}
	}
	o.Spec.ClusterIP = o.Spec.ClusterIPs[0]
	for _, p := range servicePorts[:s.Ports] {
		port := corev1.ServicePort{Name: p.name, Protocol: p.proto, Port: p.port}
		if s.Kind != corev1.ServiceTypeClusterIP {
			port.NodePort = s.NodePort(p.port)
		}
		o.Spec.Ports = append(o.Spec.Ports, port)
	}
	s.setPolicies(o)
	return o
}

func (s *Service) setPolicies(o *corev1.Service) {
	if s.ExternalLocal {
		o.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if s.ExternalLocal && s.Kind == corev1.ServiceTypeLoadBalancer {
		o.Spec.HealthCheckNodePort = 30000 + int32(s.Number)*20 + 19
	}
	if s.InternalLocal {
		o.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if s.Kind == corev1.ServiceTypeLoadBalancer {
		o.Spec.LoadBalancerSourceRanges = s.Ranges
	}
	if s.Affinity > 0 {
		o.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		o.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(s.Affinity.Seconds()))},
		}
	}
}

func (s *Service) slice(network *testbed.Lab, f testbed.Family) *discoveryv1.EndpointSlice {
	o := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprintf("%s-%d", s.Name(), f),
			Labels: map[string]string{discoveryv1.LabelServiceName: s.Name()},
		},
		AddressType: discoveryv1.AddressType(f.String()),
	}
	for _, p := range servicePorts[:s.Ports] {
		o.Ports = append(o.Ports, discoveryv1.EndpointPort{Name: new(p.name), Protocol: new(p.proto), Port: new(int32(s.Target))})
	}
	for _, pod := range Pods() {
		c, there := s.Endpoints[pod]
		if !there {
			continue
		}
		host := network.Host(pod)
		o.Endpoints = append(o.Endpoints, discoveryv1.Endpoint{
			Addresses: []string{host.Addr(f).String()}, NodeName: new(host.Node),
			Conditions: discoveryv1.EndpointConditions{Ready: new(c.Ready), Serving: new(c.Serving), Terminating: new(c.Terminating)},
		})
	}
	return o
}
