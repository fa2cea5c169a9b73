package watch

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// taintLeaving is put on a Node by the cluster autoscaler before it removes it.
const taintLeaving = "ToBeDeletedByClusterAutoscaler"

// nodeKey is the form in which node names are compared: hosts report names in any
// case, the API server has lower case only.
func nodeKey(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// node translates n.
func node(n *corev1.Node, r *reports) NodeInfo {
	return NodeInfo{
		Name:     nodeKey(n.Name),
		Zone:     n.Labels[corev1.LabelTopologyZone],
		IPs:      nodeIPs(n.Status.Addresses, r),
		PodCIDRs: podCIDRs(&n.Spec, r),
		Leaving: n.DeletionTimestamp != nil ||
			slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == taintLeaving }),
	}
}

// nodeIPs returns internal addresses before external ones.
func nodeIPs(in []corev1.NodeAddress, r *reports) []netip.Addr {
	var texts []string
	for _, kind := range []corev1.NodeAddressType{corev1.NodeInternalIP, corev1.NodeExternalIP} {
		for _, a := range in {
			if a.Type == kind {
				texts = append(texts, a.Address)
			}
		}
	}
	return addresses("address", texts, r)
}

// podCIDRs returns podCIDRs, or podCIDR where only that is given.
func podCIDRs(spec *corev1.NodeSpec, r *reports) []netip.Prefix {
	texts := spec.PodCIDRs
	if len(texts) == 0 && spec.PodCIDR != "" {
		texts = []string{spec.PodCIDR}
	}
	var out []netip.Prefix
	for _, text := range texts {
		prefix, err := parsePrefix(text)
		if err != nil {
			r.add("podCIDR "+clip(text), "%v", err)
		} else if !slices.Contains(out, prefix) {
			out = append(out, prefix)
		}
	}
	return out
}
