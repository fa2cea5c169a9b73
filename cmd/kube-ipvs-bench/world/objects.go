package world

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// sliceSize is the number of endpoints in a full EndpointSlice, as Kubernetes'
// controller makes them.
const sliceSize = 100

// Object is the Service as the API has it.
func (s Service) Object() *corev1.Service {
	tcp := corev1.ServiceInternalTrafficPolicyCluster
	single := corev1.IPFamilyPolicySingleStack
	ip := s.IP.String()
	return &corev1.Service{
		ObjectMeta: s.meta(s.Name),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: ip, ClusterIPs: []string{ip},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: &single,
			InternalTrafficPolicy: &tcp, SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{Name: s.PortName, Protocol: corev1.ProtocolTCP, Port: int32(s.Port)}},
		},
	}
}

// Slices are the Service's EndpointSlices.
func (s Service) Slices() []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	protocol, port := corev1.ProtocolTCP, int32(s.Target)
	for from := 0; from < len(s.Endpoints); from += sliceSize {
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta: s.meta(fmt.Sprintf("%s-%d", s.Name, from/sliceSize)), AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{Name: &s.PortName, Protocol: &protocol, Port: &port}},
		}
		slice.Labels = map[string]string{discoveryv1.LabelServiceName: s.Name}
		for i := from; i < min(from+sliceSize, len(s.Endpoints)); i++ {
			slice.Endpoints = append(slice.Endpoints, s.endpoint(i))
		}
		out = append(out, slice)
	}
	return out
}

func (s Service) endpoint(i int) discoveryv1.Endpoint {
	yes, no, node := true, false, s.Node
	if i >= s.Local {
		node = fmt.Sprintf("node-%d", 2+i%50)
	}
	return discoveryv1.Endpoint{
		Addresses:  []string{s.Endpoints[i].String()},
		Conditions: discoveryv1.EndpointConditions{Ready: &yes, Serving: &yes, Terminating: &no},
		NodeName:   &node,
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: s.Namespace, Name: fmt.Sprintf("%s-%d", s.Name, i),
			UID: types.UID(fmt.Sprintf("pod-%s-%d", s.Name, i))},
	}
}

func (s Service) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.Namespace, Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"}
}

// NodeObject is the node of that name, at the address of the room's node.
func NodeObject(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1",
			Labels: map[string]string{corev1.LabelHostname: name}},
		Spec:   corev1.NodeSpec{PodCIDR: "10.128.0.0/24", PodCIDRs: []string{"10.128.0.0/24"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: NodeIP.String()}}},
	}
}
