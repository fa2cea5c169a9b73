package watch

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

const (
	// labelProxyName on a Service names another proxy that serves it
	// (service.kubernetes.io/service-proxy-name).
	labelProxyName = "service.kubernetes.io/service-proxy-name"

	// The bounds of sessionAffinityConfig.clientIP.timeoutSeconds (core/v1).
	defaultAffinity, maxAffinity = 10800, 86400
)

// service translates s. It returns nil when s is not for this proxy: it is
// headless, of type ExternalName, has no cluster IP, or names another proxy.
func service(s *corev1.Service, r *reports) *plan.Service {
	if _, other := s.Labels[labelProxyName]; other || s.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	texts := clusterIPTexts(&s.Spec)
	if len(texts) == 0 {
		r.add("clusterIP", "is empty: the Service is not served until it has one")
		return nil
	}
	if texts[0] == corev1.ClusterIPNone {
		return nil
	}
	out := &plan.Service{
		Name:            plan.ServiceName{Namespace: s.Namespace, Name: s.Name},
		Type:            serviceType(s.Spec.Type, r),
		ClusterIPs:      clusterIPs(texts, s.Spec.IPFamilies, r),
		ExternalIPs:     addresses("externalIPs", s.Spec.ExternalIPs, r),
		LoadBalancerIPs: loadBalancerIPs(s.Status.LoadBalancer.Ingress, r),
		SourceRanges:    sourceRanges(s.Spec.LoadBalancerSourceRanges, r),
		Ports:           ports(s.Spec.Ports, r),
		ExternalLocal:   local("externalTrafficPolicy", string(s.Spec.ExternalTrafficPolicy), r),
		Persistence:     persistence(&s.Spec, r),
	}
	if !s.CreationTimestamp.IsZero() {
		out.Created = s.CreationTimestamp.UTC()
	}
	if p := s.Spec.InternalTrafficPolicy; p != nil {
		out.InternalLocal = local("internalTrafficPolicy", string(*p), r)
	}
	if n := s.Spec.HealthCheckNodePort; n != 0 {
		port, err := parsePort(n)
		if err != nil {
			r.add("healthCheckNodePort", "%v", err)
		}
		out.HealthCheckNodePort = port
	}
	annotate(s.Annotations, out, r)
	return out
}

// serviceType translates the type; the API server fills in ClusterIP for none.
func serviceType(t corev1.ServiceType, r *reports) plan.ServiceType {
	switch t {
	case corev1.ServiceTypeNodePort:
		return plan.NodePort
	case corev1.ServiceTypeLoadBalancer:
		return plan.LoadBalancer
	case corev1.ServiceTypeClusterIP, "":
	default:
		r.add("type", "%s is unknown; ClusterIP is used", clip(string(t)))
	}
	return plan.ClusterIP
}

// clusterIPTexts returns clusterIPs, or clusterIP where only that is given.
func clusterIPTexts(spec *corev1.ServiceSpec) []string {
	if len(spec.ClusterIPs) > 0 {
		return spec.ClusterIPs
	}
	if spec.ClusterIP == "" {
		return nil
	}
	return []string{spec.ClusterIP}
}

// clusterIPs returns at most one address for each family, in the given order. The
// i-th text must be of the i-th family, where families are given.
func clusterIPs(texts []string, families []corev1.IPFamily, r *reports) []netip.Addr {
	var out []netip.Addr
	for i, text := range texts {
		addr, err := parseUsable(text)
		add := func(format string, args ...any) { r.add("clusterIP "+clip(text), format, args...) }
		switch {
		case err != nil:
			add("%v", err)
		case len(families) > 0 && i >= len(families):
			add("has no entry in ipFamilies")
		case len(families) > 0 && string(families[i]) != familyName(addr):
			add("is not an %s address, as ipFamilies says", clip(string(families[i])))
		case slices.ContainsFunc(out, func(a netip.Addr) bool { return a.Is4() == addr.Is4() }):
			add("is a second %s address", familyName(addr))
		default:
			out = append(out, addr)
		}
	}
	return out
}

// addresses returns the usable addresses in order, without repetitions.
func addresses(part string, texts []string, r *reports) []netip.Addr {
	var out []netip.Addr
	for _, text := range texts {
		addr, err := parseUsable(text)
		if err != nil {
			r.add(part+" "+clip(text), "%v", err)
		} else if !slices.Contains(out, addr) {
			out = append(out, addr)
		}
	}
	return out
}

// loadBalancerIPs returns the addresses that nodes serve themselves: an entry with
// ipMode Proxy or with a host name alone is the load balancer's business (KEP-1860).
func loadBalancerIPs(ingress []corev1.LoadBalancerIngress, r *reports) []netip.Addr {
	var texts []string
	for _, in := range ingress {
		mode := corev1.LoadBalancerIPModeVIP
		if in.IPMode != nil {
			mode = *in.IPMode
		}
		switch {
		case in.IP == "" || mode == corev1.LoadBalancerIPModeProxy:
		case mode != corev1.LoadBalancerIPModeVIP:
			r.add("load balancer "+clip(in.IP), "ipMode %s is unknown", clip(string(mode)))
		default:
			texts = append(texts, in.IP)
		}
	}
	return addresses("load balancer", texts, r)
}

// sourceRanges returns the ranges that parse. No range means that all sources are
// allowed, so a family in which no given range parses gets a range that holds no
// client: a typing error must not open what its author wanted closed.
func sourceRanges(texts []string, r *reports) []netip.Prefix {
	var out []netip.Prefix
	var bad4, bad6, good4, good6 bool
	for _, text := range texts {
		prefix, err := parsePrefix(text)
		if err != nil {
			r.add("loadBalancerSourceRanges "+clip(text), "%v", err)
			v6 := strings.Contains(text, ":")
			bad4, bad6 = bad4 || !v6, bad6 || v6
			continue
		}
		good4, good6 = good4 || prefix.Addr().Is4(), good6 || prefix.Addr().Is6()
		if !slices.Contains(out, prefix) {
			out = append(out, prefix)
		}
	}
	if bad4 && !good4 {
		r.add("loadBalancerSourceRanges", "no IPv4 range is valid: no IPv4 client is allowed")
		out = append(out, netip.PrefixFrom(netip.IPv4Unspecified(), 32))
	}
	if bad6 && !good6 {
		r.add("loadBalancerSourceRanges", "no IPv6 range is valid: no IPv6 client is allowed")
		out = append(out, netip.PrefixFrom(netip.IPv6Unspecified(), 128))
	}
	return out
}

// local reports whether a traffic policy is Local.
func local(part, policy string, r *reports) bool {
	switch policy {
	case "Local":
		return true
	case "Cluster", "":
	default:
		r.add(part, "%s is unknown; Cluster is used", clip(policy))
	}
	return false
}

// persistence returns the seconds of ClientIP affinity, zero for none.
func persistence(spec *corev1.ServiceSpec, r *reports) uint32 {
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityClientIP:
	case corev1.ServiceAffinityNone, "":
		return 0
	default:
		r.add("sessionAffinity", "%s is unknown; None is used", clip(string(spec.SessionAffinity)))
		return 0
	}
	config := spec.SessionAffinityConfig
	if config == nil || config.ClientIP == nil || config.ClientIP.TimeoutSeconds == nil {
		return defaultAffinity
	}
	seconds := *config.ClientIP.TimeoutSeconds
	if seconds < 1 || seconds > maxAffinity {
		r.add("sessionAffinityConfig", "%d seconds are not in 1-%d; %d are used", seconds, maxAffinity, defaultAffinity)
		return defaultAffinity
	}
	return uint32(seconds)
}

// protocol translates a protocol; the API server fills in TCP for none.
func protocol(p corev1.Protocol) (ipvsutil.Protocol, bool) {
	switch p {
	case corev1.ProtocolTCP, "":
		return ipvsutil.TCP, true
	case corev1.ProtocolUDP:
		return ipvsutil.UDP, true
	case corev1.ProtocolSCTP:
		return ipvsutil.SCTP, true
	}
	return 0, false
}
