package watch

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// web is a Service without a fault.
func web() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			ClusterIP:  "10.96.0.10",
			ClusterIPs: []string{"10.96.0.10"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
}

// wantWeb is what web means.
func wantWeb() *plan.Service {
	return &plan.Service{
		Name:       plan.ServiceName{Namespace: "default", Name: "web"},
		ClusterIPs: addrs("10.96.0.10"),
		Ports:      []plan.Port{{Name: "http", Protocol: ipvsutil.TCP, Port: 80}},
	}
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// compareValues compares values that hold addresses.
func compareValues[T any](t *testing.T, want, got T) {
	t.Helper()
	opts := []cmp.Option{
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	}
	if diff := cmp.Diff(want, got, opts...); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// wantProblems checks that each problem contains its text, in order.
func wantProblems(t *testing.T, got []Problem, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Errorf("missing problem with %q", want[i])
		case i >= len(want):
			t.Errorf("unexpected problem %q", got[i])
		case !strings.Contains(got[i].String(), want[i]):
			t.Errorf("problem %q does not contain %q", got[i], want[i])
		}
	}
}

func TestService(t *testing.T) {
	vip, proxy, odd := corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPMode("Odd")
	localPolicy, oddPolicy := corev1.ServiceInternalTrafficPolicyLocal, corev1.ServiceInternalTrafficPolicy("Odd")
	affinity := func(seconds int32) *corev1.SessionAffinityConfig {
		return &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
	}
	born := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	tests := []struct {
		name     string
		in       func(*corev1.Service)
		want     func(*plan.Service)
		problems []string
	}{
		{name: "plain", in: func(*corev1.Service) {}},
		{name: "created in any zone is UTC",
			in: func(s *corev1.Service) {
				s.CreationTimestamp = metav1.NewTime(born.In(time.FixedZone("X", 3600)))
			},
			want: func(p *plan.Service) { p.Created = born }},
		{name: "dual stack",
			in: func(s *corev1.Service) {
				s.Spec.ClusterIPs = []string{"fd96::10", "10.96.0.10"}
				s.Spec.IPFamilies = []corev1.IPFamily{"IPv6", "IPv4"}
			},
			want: func(p *plan.Service) { p.ClusterIPs = addrs("fd96::10", "10.96.0.10") }},
		{name: "dual stack without families",
			in: func(s *corev1.Service) {
				s.Spec.ClusterIPs, s.Spec.IPFamilies = []string{"10.96.0.10", "fd96::10"}, nil
			},
			want: func(p *plan.Service) { p.ClusterIPs = addrs("10.96.0.10", "fd96::10") }},
		{name: "clusterIP alone", in: func(s *corev1.Service) { s.Spec.ClusterIPs, s.Spec.IPFamilies = nil, nil }},
		{name: "cluster IP of the wrong family",
			in: func(s *corev1.Service) {
				s.Spec.ClusterIPs = []string{"10.96.0.10", "10.96.0.11"}
				s.Spec.IPFamilies = []corev1.IPFamily{"IPv4", "IPv6"}
			},
			problems: []string{"Service default/web: clusterIP 10.96.0.11: is not an IPv6 address"}},
		{name: "second cluster IP of a family, and one without a family",
			in: func(s *corev1.Service) {
				s.Spec.ClusterIPs = []string{"10.96.0.10", "10.96.0.11", "fd96::1"}
				s.Spec.IPFamilies = []corev1.IPFamily{"IPv4", "IPv4"}
			},
			problems: []string{"clusterIP 10.96.0.11: is a second IPv4 address", "clusterIP fd96::1: has no entry in ipFamilies"}},
		{name: "leading zeros and mapped addresses are canonical",
			in: func(s *corev1.Service) {
				s.Spec.ClusterIPs = []string{"010.096.000.010"}
				s.Spec.ExternalIPs = []string{"::ffff:198.51.100.1", "198.51.100.001", "FD00:0::1"}
			},
			want: func(p *plan.Service) { p.ExternalIPs = addrs("198.51.100.1", "fd00::1") }},
		{name: "unusable external addresses",
			in: func(s *corev1.Service) {
				s.Spec.ExternalIPs = []string{"127.0.0.1", "0.0.0.0", "::", "224.0.0.1", "ff02::1", "255.255.255.255",
					"fe80::1%eth0", "1.2.3", "", "198.51.100.1", "\x00\n" + strings.Repeat("x", 1<<20)}
			},
			want: func(p *plan.Service) { p.ExternalIPs = addrs("198.51.100.1") },
			problems: []string{"externalIPs 127.0.0.1: is a loopback", "0.0.0.0: is the unspecified", "::: is the unspecified",
				"224.0.0.1: is a multicast", "ff02::1: is a multicast", "broadcast", "has a zone", "1.2.3: is not an IP",
				"is not an IP", `\x00\nxxx`}},
		{name: "load balancer addresses",
			in: func(s *corev1.Service) {
				s.Spec.Type = corev1.ServiceTypeLoadBalancer
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{
					{IP: "203.0.113.1"}, {IP: "203.0.113.2", IPMode: &vip}, {IP: "203.0.113.3", IPMode: &proxy},
					{Hostname: "lb.example"}, {IP: "203.0.113.4", IPMode: &odd}, {IP: "x"}, {IP: "2001:db8::1"}}
			},
			want: func(p *plan.Service) {
				p.Type, p.LoadBalancerIPs = plan.LoadBalancer, addrs("203.0.113.1", "203.0.113.2", "2001:db8::1")
			},
			problems: []string{"203.0.113.4: ipMode Odd is unknown", "load balancer x: is not an IP"}},
		{name: "stale load balancer status of a ClusterIP Service counts",
			in: func(s *corev1.Service) {
				s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "203.0.113.1"}}
			},
			want: func(p *plan.Service) { p.LoadBalancerIPs = addrs("203.0.113.1") }},
		{name: "Statement65 source ranges with blanks and host bits",
			in:   func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"  192.0.2.200/24 ", "fd00::1/8"} },
			want: func(p *plan.Service) { p.SourceRanges = prefixes("192.0.2.0/24", "fd00::/8") }},
		{name: "Statement66 a zero-length range is handed on",
			in:   func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"0.0.0.0/0"} },
			want: func(p *plan.Service) { p.SourceRanges = prefixes("0.0.0.0/0") }},
		{name: "a bad range is dropped",
			in: func(s *corev1.Service) {
				s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "10.0.0.0/33", "::ffff:10.0.0.0/104", "011.0.0.0/8", "fd00::/8"}
			},
			want:     func(p *plan.Service) { p.SourceRanges = prefixes("10.0.0.0/8", "11.0.0.0/8", "fd00::/8") },
			problems: []string{"10.0.0.0/33: is not an address range", "IPv4-mapped"}},
		{name: "ranges of which none is valid close their family",
			in:       func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0", "fd00::/8"} },
			want:     func(p *plan.Service) { p.SourceRanges = prefixes("fd00::/8", "0.0.0.0/32") },
			problems: []string{"10.0.0.0: is not an address range", "no IPv4 client is allowed"}},
		{name: "ports: names and protocols",
			in: func(s *corev1.Service) {
				s.Spec.Ports = []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: "UDP"}, {Name: "dns", Port: 53},
					{Name: "sig", Port: 5060, Protocol: "SCTP", NodePort: 30060}}
			},
			want: func(p *plan.Service) {
				p.Ports = []plan.Port{{Name: "dns", Protocol: ipvsutil.UDP, Port: 53}, {Name: "dns", Protocol: ipvsutil.TCP, Port: 53},
					{Name: "sig", Protocol: ipvsutil.SCTP, Port: 5060, NodePort: 30060}}
			}},
		{name: "bad ports leave the others",
			in: func(s *corev1.Service) {
				s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "zero"}, corev1.ServicePort{Name: "big", Port: 70000},
					corev1.ServicePort{Name: "neg", Port: -1}, corev1.ServicePort{Name: "icmp", Port: 1, Protocol: "ICMP"},
					corev1.ServicePort{Name: "http", Port: 81}, corev1.ServicePort{Name: "again", Port: 80},
					corev1.ServicePort{Name: "np", Port: 82, NodePort: 99999},
					corev1.ServicePort{Name: "np1", Port: 83, NodePort: 30001}, corev1.ServicePort{Name: "np2", Port: 84, NodePort: 30001},
					corev1.ServicePort{Name: strings.Repeat("n", 64), Port: 85})
			},
			want: func(p *plan.Service) {
				p.Ports = append(p.Ports, plan.Port{Name: "np", Protocol: ipvsutil.TCP, Port: 82},
					plan.Port{Name: "np1", Protocol: ipvsutil.TCP, Port: 83, NodePort: 30001},
					plan.Port{Name: "np2", Protocol: ipvsutil.TCP, Port: 84})
			},
			problems: []string{"port zero: port 0 is not in 1-65535", "port big: port 70000", "port neg: port -1", "port icmp: protocol ICMP",
				"port http: a port with this name or number", "port again: a port with", "port np: nodePort 99999",
				"port np2: nodePort 30001 is used", "longer than 63"}},
		{name: "policies",
			in: func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.InternalTrafficPolicy = "NodePort", "Local", &localPolicy
			},
			want: func(p *plan.Service) { p.Type, p.ExternalLocal, p.InternalLocal = plan.NodePort, true, true }},
		{name: "unknown words",
			in: func(s *corev1.Service) {
				s.Spec.Type, s.Spec.ExternalTrafficPolicy, s.Spec.InternalTrafficPolicy, s.Spec.SessionAffinity = "Odd", "local", &oddPolicy, "Cookie"
			},
			problems: []string{"type: Odd is unknown", "externalTrafficPolicy: local is unknown", "sessionAffinity: Cookie", "internalTrafficPolicy: Odd"}},
		{name: "affinity by default",
			in:   func(s *corev1.Service) { s.Spec.SessionAffinity = "ClientIP" },
			want: func(p *plan.Service) { p.Persistence = 10800 }},
		{name: "affinity",
			in: func(s *corev1.Service) {
				s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = "ClientIP", affinity(10)
			},
			want: func(p *plan.Service) { p.Persistence = 10 }},
		{name: "negative affinity",
			in: func(s *corev1.Service) {
				s.Spec.SessionAffinity, s.Spec.SessionAffinityConfig = "ClientIP", affinity(-5)
			},
			want:     func(p *plan.Service) { p.Persistence = 10800 },
			problems: []string{"sessionAffinityConfig: -5 seconds are not in 1-86400"}},
		{name: "affinity config without affinity", in: func(s *corev1.Service) { s.Spec.SessionAffinityConfig = affinity(10) }},
		{name: "health check port",
			in:   func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 32000 },
			want: func(p *plan.Service) { p.HealthCheckNodePort = 32000 }},
		{name: "bad health check port",
			in:       func(s *corev1.Service) { s.Spec.HealthCheckNodePort = -1 },
			problems: []string{"healthCheckNodePort: -1 is not in 1-65535"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			in, want := web(), wantWeb()
			test.in(in)
			if test.want != nil {
				test.want(want)
			}
			r := &reports{object: "Service default/web"}
			got := service(in, r)
			compareValues(t, want, got)
			wantProblems(t, r.problems(), test.problems)
		})
	}
}

// TestServiceNotOurs: spec of who serves what; see the Service API and the label
// service.kubernetes.io/service-proxy-name.
func TestServiceNotOurs(t *testing.T) {
	tests := map[string]struct {
		in       func(*corev1.Service)
		problems []string
	}{
		"headless":                    {in: func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None"} }},
		"headless, clusterIP alone":   {in: func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", nil }},
		"Statement17 ExternalName":    {in: func(s *corev1.Service) { s.Spec.Type = "ExternalName" }},
		"Statement18 of other proxy":  {in: func(s *corev1.Service) { s.Labels = map[string]string{labelProxyName: "foo"} }},
		"label of other proxy, empty": {in: func(s *corev1.Service) { s.Labels = map[string]string{labelProxyName: ""} }},
		"no cluster IP": {in: func(s *corev1.Service) { s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil },
			problems: []string{"clusterIP: is empty"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			in := web()
			test.in(in)
			r := &reports{object: "Service default/web"}
			if got := service(in, r); got != nil {
				t.Errorf("got %+v, want none", got)
			}
			wantProblems(t, r.problems(), test.problems)
		})
	}
}

// TestProblemsAreBounded: an object with very many faults tells a few and counts.
func TestProblemsAreBounded(t *testing.T) {
	in := web()
	for range 1000 {
		in.Spec.ExternalIPs = append(in.Spec.ExternalIPs, "bad")
	}
	r := &reports{object: "Service default/web"}
	service(in, r)
	got := r.problems()
	if len(got) != maxProblems+1 || !strings.Contains(got[maxProblems].Reason, "980 more") {
		t.Errorf("got %d problems, the last is %q", len(got), got[len(got)-1])
	}
}
