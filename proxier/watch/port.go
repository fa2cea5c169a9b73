package watch

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// maxLabel is the length of a DNS label, which port names and Services are.
const maxLabel = 63

// taken is what a port of a Service may not share with another one: its name, its
// port or its node port, each together with the protocol.
type taken struct {
	kind     string
	name     string
	number   uint16
	protocol ipvsutil.Protocol
}

// ports returns the ports that can be served. Of two that collide the first stays,
// so that what is served does not depend on what comes later.
func ports(in []corev1.ServicePort, r *reports) []plan.Port {
	out := make([]plan.Port, 0, len(in))
	seen := make(map[taken]bool, 2*len(in))
	for i := range in {
		port, err := servicePort(&in[i])
		if err != nil {
			r.add(portPart(&in[i]), "%v", err)
			continue
		}
		name := taken{"name", port.Name, 0, port.Protocol}
		number := taken{"port", "", port.Port, port.Protocol}
		if seen[name] || seen[number] {
			r.add(portPart(&in[i]), "a port with this name or number and protocol %s comes before it", port.Protocol)
			continue
		}
		seen[name], seen[number] = true, true
		port.NodePort = nodePort(&in[i], port.Protocol, seen, r)
		out = append(out, port)
	}
	return out
}

// servicePort translates all but the node port.
func servicePort(in *corev1.ServicePort) (plan.Port, error) {
	proto, ok := protocol(in.Protocol)
	if !ok {
		return plan.Port{}, fmt.Errorf("protocol %s is unknown", clip(string(in.Protocol)))
	}
	if len(in.Name) > maxLabel {
		return plan.Port{}, fmt.Errorf("the name is longer than %d characters", maxLabel)
	}
	number, err := parsePort(in.Port)
	if err != nil {
		return plan.Port{}, fmt.Errorf("port %w", err)
	}
	return plan.Port{Name: in.Name, Protocol: proto, Port: number}, nil
}

// nodePort returns zero when there is none or when it cannot be used.
func nodePort(in *corev1.ServicePort, proto ipvsutil.Protocol, seen map[taken]bool, r *reports) uint16 {
	if in.NodePort == 0 {
		return 0
	}
	number, err := parsePort(in.NodePort)
	if err != nil {
		r.add(portPart(in), "nodePort %v", err)
		return 0
	}
	key := taken{"nodePort", "", number, proto}
	if seen[key] {
		r.add(portPart(in), "nodePort %d is used by a port before it", number)
		return 0
	}
	seen[key] = true
	return number
}

// portPart names a port in problems.
func portPart(in *corev1.ServicePort) string {
	if in.Name == "" {
		return fmt.Sprintf("port %d", in.Port)
	}
	return "port " + clip(in.Name)
}
