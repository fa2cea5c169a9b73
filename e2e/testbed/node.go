package testbed

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// nodeObjects are the Node objects of the table, each changed by change.
func nodeObjects(change func(*corev1.Node)) []runtime.Object {
	var objects []runtime.Object
	for _, spec := range hostSpecs {
		if spec.zone == "" {
			continue
		}
		n := nodeObject(spec)
		if change != nil {
			change(n)
		}
		if n.Name != "" {
			objects = append(objects, n)
		}
	}
	return objects
}

func nodeObject(spec hostSpec) *corev1.Node {
	addr, pods := spec.addr(false), spec.podNetwork()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   spec.name,
			Labels: map[string]string{corev1.LabelTopologyZone: spec.zone},
		},
		Spec: corev1.NodeSpec{
			PodCIDR:  pods.v4.String(),
			PodCIDRs: []string{pods.v4.String(), pods.v6.String()},
		},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: addr.v4.String()},
			{Type: corev1.NodeInternalIP, Address: addr.v6.String()},
			{Type: corev1.NodeHostName, Address: spec.name},
		}},
	}
}

// BridgeAddr is a node's own address in its pod network, on cbr0.
func (h *Host) BridgeAddr(f Family) netip.Addr { return nodeSpec(h.Name()).podAddr(1).of(f) }

// NodeAddrs are all addresses of a node that the lab gave it, without loopback.
func (h *Host) NodeAddrs(f Family) []netip.Addr {
	return []netip.Addr{h.Addr(f), h.SecondAddr(f), h.BridgeAddr(f)}
}
