package explain

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

var (
	pod     = Client{Origin: FromPod, Addr: addr("10.244.1.5")}
	process = Client{Origin: FromNode}
	outside = Client{Origin: FromOutside, Addr: addr("198.51.100.5")}
)

func notReady(e *plan.Endpoint) { e.Ready, e.Serving = false, false }

func external(s *plan.Service) {
	s.Type = plan.LoadBalancer
	s.LoadBalancerIPs = []netip.Addr{addr("203.0.113.7")}
	s.Ports[0].NodePort = 30080
}

func externalLocal(s *plan.Service) {
	external(s)
	s.ExternalLocal = true
}

// TestExplain tells the way to Services of many kinds, in golden files.
func TestExplain(t *testing.T) {
	here, there := endpoint("10.244.1.10:8080", "node-1"), endpoint("10.244.2.10:8080", "node-2")
	for _, test := range []struct {
		name      string
		change    func(*plan.Service)
		endpoints []plan.Endpoint
		from      []Client
	}{
		{"cluster-ip", func(s *plan.Service) { s.Persistence = 600 },
			[]plan.Endpoint{here, there, endpoint("10.244.3.10:8080", "node-3", notReady)}, []Client{pod, process, outside, {Origin: FromPod, Addr: addr("10.244.1.10")}}},
		{"hints", func(*plan.Service) {}, []plan.Endpoint{
			endpoint("10.244.1.10:8080", "node-1", func(e *plan.Endpoint) { e.Zones = []string{"z1"} }),
			endpoint("10.244.2.10:8080", "node-2", func(e *plan.Endpoint) { e.Zones = []string{"z2"} }),
		}, []Client{pod}},
		{"terminating", func(*plan.Service) {}, []plan.Endpoint{
			here,
			endpoint("10.244.1.11:8080", "node-1", func(e *plan.Endpoint) { e.Ready, e.Terminating = false, true }),
			endpoint("10.244.1.12:8080", "node-1", notReady, func(e *plan.Endpoint) { e.Terminating = true }),
		}, []Client{pod}},
		{"no-endpoint", external, []plan.Endpoint{endpoint("10.244.2.10:8080", "node-2", notReady)}, []Client{pod, process}},
		{"internal-local", func(s *plan.Service) { s.InternalLocal = true }, []plan.Endpoint{there}, []Client{pod, process}},
		{"external-cluster", external, []plan.Endpoint{here, there}, []Client{outside, process}},
		{"external-local", externalLocal, []plan.Endpoint{here, there}, []Client{outside, pod, process}},
		{"external-local-none-here", externalLocal, []plan.Endpoint{there}, []Client{outside, pod}},
		{"source-ranges", func(s *plan.Service) {
			external(s)
			s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
		}, []plan.Endpoint{here}, []Client{outside, pod, process}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWorld()
			w.service("web", test.change, test.endpoints...)
			w.settle()
			var text strings.Builder
			for _, from := range test.from {
				text.WriteString("#### " + from.String() + "\n\n" + w.explain("web", from))
			}
			for line := range strings.Lines(text.String()) {
				if len(line) > width+1 {
					t.Errorf("%d columns: %s", len(line)-1, line)
				}
			}
			golden(t, test.name, text.String())
		})
	}
}

// TestExplainConflict: the younger Service is told who has its address.
func TestExplainConflict(t *testing.T) {
	w := newWorld()
	w.service("old", external, endpoint("10.244.1.10:8080", "node-1"))
	w.service("young", func(s *plan.Service) {
		s.ClusterIPs = []netip.Addr{addr("10.96.0.11")}
		s.ExternalIPs = []netip.Addr{addr("203.0.113.7")}
	}, endpoint("10.244.1.11:8080", "node-1"))
	w.settle()
	text := w.explain("young", Client{})
	if !strings.Contains(text, "verdict   not served: Service shop/old has this address and port\n") ||
		!strings.Contains(text, "verdict   works\n") {
		t.Error(text)
	}
}

// TestExplainKernel: what the kernel has wrong is the verdict, what could not be read
// is said.
func TestExplainKernel(t *testing.T) {
	w := newWorld()
	w.service("web", func(*plan.Service) {}, endpoint("10.244.1.10:8080", "node-1"))
	w.settle()
	key := ipvsutil.Key{Addr: at("10.96.0.10:80"), Protocol: ipvsutil.TCP}
	w.node.Observed.Servers[key].RealServers[0].Weight = 0
	if text := w.explain("web", pod); !strings.Contains(text, "verdict   differs from plan: real server 10.96.0.10:80/tcp ->") {
		t.Error(text)
	}
	w.settle()
	w.node.Observed.Unknown = map[Part]error{Servers: errors.New("no root")}
	w.node.Observed.Servers = nil
	text := w.explain("web", pod)
	if !strings.Contains(text, "virtual servers could not be read: no root") || !strings.Contains(text, "verdict   works") {
		t.Error(text)
	}
}

// TestExplainPicksFrontends by port, address and family.
func TestExplainPicksFrontends(t *testing.T) {
	w := newWorld()
	w.service("web", external, endpoint("10.244.1.10:8080", "node-1"))
	w.settle()
	s := w.services["web"]
	for _, test := range []struct {
		q    Question
		want int
	}{
		{Question{}, 3}, {Question{Port: "http"}, 3}, {Question{Port: "80"}, 3}, {Question{Port: "30080"}, 1},
		{Question{Port: "https"}, 0}, {Question{To: addr("203.0.113.7")}, 1}, {Question{From: Client{FromPod, addr("fd00::1")}}, 0},
	} {
		test.q.Name, test.q.Service, test.q.Endpoints = s.Name, s, w.endpoints["web"]
		if got := Explain(test.q, w.node); len(got) != test.want {
			t.Errorf("%+v: %d frontends, want %d", test.q, len(got), test.want)
		}
	}
}

func TestNearest(t *testing.T) {
	name := func(namespace, name string) plan.ServiceName {
		return plan.ServiceName{Namespace: namespace, Name: name}
	}
	all := []plan.ServiceName{name("shop", "web"), name("shop", "webfront"), name("shop", "database"), name("test", "web")}
	got := Nearest(name("shop", "wbe"), all)
	if len(got) != 2 || got[0] != name("shop", "web") || got[1] != name("test", "web") {
		t.Errorf("got %v", got)
	}
	if got := Nearest(name("shop", "front"), all); len(got) != 1 || got[0] != name("shop", "webfront") {
		t.Errorf("got %v", got)
	}
	if got := Nearest(name("shop", "zzzzzzzz"), all); got != nil {
		t.Errorf("got %v", got)
	}
}
