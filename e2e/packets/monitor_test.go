//go:build kernel

package packets

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

func TestStatement116NodeThatIsAboutToGo(t *testing.T) {
	s := begin(t)
	s.service(withHealth(ready(L1)...))
	s.wantPages(200, 200)
	s.nodes(func(n *corev1.Node) {
		if n.Name == N {
			n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Value: "1", Effect: corev1.TaintEffectNoSchedule}}
		}
	})
	s.wantPages(503, 200)
	s.eachTCP(func(w way) { w.wantHealth(health{200, "1", 1}) })
	if err := lab.ApplyNodes(nil); err != nil {
		t.Fatal(err)
	}
	s.wantPages(200, 200)
}

func TestStatement120HealthPortThatIsTaken(t *testing.T) {
	s := begin(t)
	var taken *probe.Server
	s.until("the port of the test before", func() (free bool) {
		var err error
		taken, err = lab.Host(N).Serve(TCP, netip.AddrPortFrom(netip.IPv4Unspecified(), healthPort))
		return err == nil
	})
	v := s.service(withHealth(ready(L1)...))
	s.logged("level=WARN", "health check port", v.name(), "address already in use")
	v.endpoints = ready(L1, L2)
	s.apply(v)
	s.eachTCP(func(w way) {
		if w.f == IPv6 { // the other family's port is free
			w.wantHealth(health{200, "2", 2})
		}
	})
	if told := linesWith("health check port", v.name()); len(told) != 1 {
		t.Errorf("told %d times:\n%s", len(told), strings.Join(told, "\n"))
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	s.until("the port", func() bool { code, _ := s.page(fmt.Sprint("127.0.0.1:", healthPort), "/"); return code == 200 })
}

// kubeProxyMetrics are those that kube-proxy has in mode ipvs: type, name, labels.
var kubeProxyMetrics = []struct{ kind, name, labels string }{
	{"histogram", "kubeproxy_sync_proxy_rules_duration_seconds", "ip_family"},
	{"gauge", "kubeproxy_sync_proxy_rules_last_timestamp_seconds", "ip_family"},
	{"gauge", "kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", "ip_family"},
	{"histogram", "kubeproxy_network_programming_duration_seconds", "ip_family"},
	{"gauge", "kubeproxy_sync_proxy_rules_endpoint_changes_pending", ""},
	{"counter", "kubeproxy_sync_proxy_rules_endpoint_changes_total", ""},
	{"gauge", "kubeproxy_sync_proxy_rules_service_changes_pending", ""},
	{"counter", "kubeproxy_sync_proxy_rules_service_changes_total", ""},
	{"gauge", "kubeproxy_sync_proxy_rules_no_local_endpoints_total", "ip_family traffic_policy"},
	{"counter", "kubeproxy_sync_proxy_rules_iptables_restore_failures_total", "ip_family"},
	{"histogram", "kubeproxy_conntrack_reconciler_sync_duration_seconds", "ip_family"},
	{"counter", "kubeproxy_conntrack_reconciler_deleted_entries_total", "ip_family"},
	{"counter", "kubeproxy_proxy_healthz_total", "code"},
	{"counter", "kubeproxy_proxy_livez_total", "code"},
	{"gauge", "kubernetes_build_info", "build_date compiler git_commit git_tree_state git_version go_version major minor platform"},
}

func TestStatement122And123MetricsAndMode(t *testing.T) {
	s := begin(t)
	s.service(service{endpoints: ready(L1)})
	s.wantPages(200, 200) // they are counted
	lines := s.metrics()
	for _, m := range kubeProxyMetrics {
		if !slices.Contains(lines, "# TYPE "+m.name+" "+m.kind) {
			t.Errorf("no %s %s", m.kind, m.name)
		}
		if got := labelsOf(lines, m.name); got != m.labels {
			t.Errorf("%s has the labels %q, want %q", m.name, got, m.labels)
		}
	}
	for _, f := range testbed.Families() {
		if !slices.ContainsFunc(lines, func(l string) bool {
			return strings.HasPrefix(l, `kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="`+f.String()+`"} `)
		}) {
			t.Errorf("no rounds of %v", f)
		}
	}
	if code, mode := s.page(metricsAt, "/proxyMode"); code != 200 || mode != "ipvs" {
		t.Errorf("proxyMode says %d %q", code, mode)
	}
	if code, text := s.page(metricsAt, "/healthz"); code != 200 || text != "ok" {
		t.Errorf("healthz of the metrics server says %d %q", code, text)
	}
}

func TestStatement122LocalPoliciesWithoutLocalEndpoint(t *testing.T) {
	s := begin(t)
	s.service(service{endpoints: ready(Rm), loadBalancer: true, externalLocal: true, internalLocal: true}) // two ports
	s.service(service{endpoints: ready(L1), internalLocal: true})
	s.service(service{internalLocal: true})
	want := []string{
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 2`,
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"} 2`,
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv6",traffic_policy="external"} 2`,
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv6",traffic_policy="internal"} 2`,
	}
	s.until("the gauges", func() bool {
		lines := s.metrics()
		for _, line := range want {
			if !slices.Contains(lines, line) {
				return false
			}
		}
		return true
	})
}

func TestTrafficOfServices(t *testing.T) {
	s := begin(t)
	s.flags("--traffic-metrics", "1")
	first, second := s.service(service{endpoints: ready(L1)}), s.service(service{endpoints: ready(L1)})
	s.eachTCP(func(w way) {
		w.from(c1).times(3).to(first.cluster(w)).reach(L1)
		w.from(c1).times(5).to(second.cluster(w)).reach(L1)
	})
	connections := func(name string) bool {
		const metric = "kube_ipvs_proxy_service_connections_total"
		return slices.ContainsFunc(s.metrics(), func(l string) bool {
			return strings.HasPrefix(l, metric+`{namespace="`) && strings.HasSuffix(l, name)
		})
	}
	// The API server's own Service may have the one place.
	s.until("counted", func() bool { return connections(`service=""} 10`) || connections(`service=""} 16`) })
	if connections(`service="`+second.name()+`"} 10`) || connections(`service="`+first.name()+`"} 6`) == connections(`service=""} 16`) {
		t.Errorf("more than one Service has metrics of its own: %q", s.metrics())
	}
}

// labelsOf are the labels of a metric, sorted, without that of a bucket; "none" where
// there is no such metric.
func labelsOf(lines []string, name string) string {
	for _, line := range lines {
		rest, ok := strings.CutPrefix(line, name)
		if !ok {
			continue
		}
		rest = strings.TrimPrefix(rest, "_count")
		switch {
		case strings.HasPrefix(rest, " "):
			return ""
		case !strings.HasPrefix(rest, "{"):
			continue
		}
		rest, _, _ = strings.Cut(rest[1:], "} ")
		var labels []string
		for label := range strings.SplitSeq(rest, `",`) {
			key, _, _ := strings.Cut(label, "=")
			labels = append(labels, key)
		}
		slices.Sort(labels)
		return strings.Join(labels, " ")
	}
	return "none"
}
