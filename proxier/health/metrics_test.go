package health

import (
	"bufio"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// exposition is what /metrics says: the type and label names of each metric, and
// each sample's value.
type exposition struct {
	types   map[string]string
	labels  map[string]string
	samples map[string]float64
}

var labelName = regexp.MustCompile(`([a-z_]+)="`)

func scrape(t *testing.T, m *Monitor) exposition {
	t.Helper()
	return parse(t, ask(m.MetricsHandler(Pages{}), "GET", "/metrics").Body.String())
}

func parse(t *testing.T, text string) exposition {
	t.Helper()
	e := exposition{map[string]string{}, map[string]string{}, map[string]float64{}}
	name := ""
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			var kind string
			name, kind, _ = strings.Cut(rest, " ")
			e.types[name] = kind
			continue
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[cut+1:], 64)
		if err != nil {
			t.Fatalf("line %q: %v", line, err)
		}
		e.samples[line[:cut]] = value
		var labels []string
		for _, found := range labelName.FindAllStringSubmatch(line[:cut], -1) {
			if found[1] != "le" {
				labels = append(labels, found[1])
			}
		}
		e.labels[name] = strings.Join(labels, ",")
	}
	return e
}

func (e exposition) want(t *testing.T, sample string, value float64) {
	t.Helper()
	if got, ok := e.samples[sample]; !ok || got != value {
		t.Errorf("%s: %v (present %v), want %v", sample, got, ok, value)
	}
}

// used returns a Monitor of which everything was used once, so that every metric shows.
func used() *Monitor {
	m := New(Config{Build: Build{Version: "v1.2.3"}, Features: []Feature{{"KubeProxyIPVS", "DEPRECATED", true}}})
	m.Queued()
	m.ServicesChanged(3)
	m.EndpointsChanged(2)
	m.Begin()
	m.EndpointsChanged(5)
	m.End(Round{
		Took: 3 * time.Millisecond, Complete: true,
		Pending: 1, Draining: 2, Conflicts: 3, LocalOnly: 4, Problems: 5,
	})
	m.SourceHeard()
	m.NetworkProgramming(IPv6, 1500*time.Millisecond)
	m.RestoreFailed(IPv4)
	m.StaleFlows(IPv4, time.Millisecond, 7)
	m.Operations("real_server", "create", 4, 1)
	m.Failures("busy", 1)
	m.Repairs("rules", 1)
	m.ManifestProblems(6)
	m.SetInventory(Inventory{
		Services: 9, VirtualServers: [2]int{10, 11}, RealServers: [2]int{12, 13},
		BoundAddresses: [2]int{14, 15}, CapturedAddresses: [2]int{16, 17},
		SetMembers:      map[string]int{"KUBE-CLUSTER-IP": 18},
		SetSizes:        map[string]uint32{"KUBE-CLUSTER-IP": 19},
		NoLocalInternal: [2]int{19, 20}, NoLocalExternal: [2]int{21, 22},
	})
	m.RESTRequest("200", "GET", "api:6443")
	m.RESTRetry("429", "GET", "api:6443")
	m.RESTDuration("GET", "api:6443", time.Second)
	m.RESTThrottled("GET", "api:6443", time.Second)
	return m
}

// TestStatement122Names holds names, types and labels. The first part is
// kube-proxy's, the second that of every component, the third ours.
func TestStatement122Names(t *testing.T) {
	const want = `
kubeproxy_conntrack_reconciler_deleted_entries_total counter ip_family
kubeproxy_conntrack_reconciler_sync_duration_seconds histogram ip_family
kubeproxy_network_programming_duration_seconds histogram ip_family
kubeproxy_proxy_healthz_total counter code
kubeproxy_proxy_livez_total counter code
kubeproxy_sync_proxy_rules_duration_seconds histogram ip_family
kubeproxy_sync_proxy_rules_endpoint_changes_pending gauge
kubeproxy_sync_proxy_rules_endpoint_changes_total counter
kubeproxy_sync_proxy_rules_iptables_restore_failures_total counter ip_family
kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds gauge ip_family
kubeproxy_sync_proxy_rules_last_timestamp_seconds gauge ip_family
kubeproxy_sync_proxy_rules_no_local_endpoints_total gauge ip_family,traffic_policy
kubeproxy_sync_proxy_rules_service_changes_pending gauge
kubeproxy_sync_proxy_rules_service_changes_total counter

kubernetes_build_info gauge build_date,compiler,git_commit,git_tree_state,git_version,go_version,major,minor,platform
kubernetes_feature_enabled gauge name,stage
rest_client_rate_limiter_duration_seconds histogram host,verb
rest_client_request_duration_seconds histogram host,verb
rest_client_request_retries_total counter code,host,verb
rest_client_requests_total counter code,host,method

kube_ipvs_proxy_bound_addresses gauge ip_family
kube_ipvs_proxy_captured_addresses gauge ip_family
kube_ipvs_proxy_conflicts gauge
kube_ipvs_proxy_draining_real_servers gauge
kube_ipvs_proxy_failures_total counter class
kube_ipvs_proxy_healthy gauge
kube_ipvs_proxy_local_only_services gauge
kube_ipvs_proxy_manifest_problems gauge
kube_ipvs_proxy_oldest_pending_seconds gauge
kube_ipvs_proxy_operations_total counter kind,result,verb
kube_ipvs_proxy_pending_objects gauge
kube_ipvs_proxy_real_servers gauge ip_family
kube_ipvs_proxy_repairs_total counter what
kube_ipvs_proxy_round_duration_seconds histogram
kube_ipvs_proxy_rounds_total counter result
kube_ipvs_proxy_seconds_since_last_event gauge
kube_ipvs_proxy_service_problems gauge
kube_ipvs_proxy_services gauge
kube_ipvs_proxy_set_max_members gauge set
kube_ipvs_proxy_set_members gauge set
kube_ipvs_proxy_virtual_servers gauge ip_family
`
	got := scrape(t, used())
	var lines []string
	for name, kind := range got.types {
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		lines = append(lines, strings.TrimSpace(name+" "+kind+" "+got.labels[name]))
	}
	wanted := strings.FieldsFunc(want, func(r rune) bool { return r == '\n' })
	slices.Sort(wanted)
	slices.Sort(lines)
	if diff := cmp.Diff(wanted, lines); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
	for _, name := range []string{"go_goroutines", "go_info", "process_cpu_seconds_total", "process_start_time_seconds"} {
		if got.types[name] == "" {
			t.Errorf("%s is missing", name)
		}
	}
}

func TestStatement122Buckets(t *testing.T) {
	want := map[string][]string{
		"kubeproxy_sync_proxy_rules_duration_seconds": {
			"0.001", "0.002", "0.004", "0.008", "0.016", "0.032", "0.064", "0.128", "0.256", "0.512",
			"1.024", "2.048", "4.096", "8.192", "16.384", "+Inf",
		},
		"kubeproxy_network_programming_duration_seconds": {"0", "0.25", "0.5"},
	}
	want["kubeproxy_conntrack_reconciler_sync_duration_seconds"] = want["kubeproxy_sync_proxy_rules_duration_seconds"]
	programming := want["kubeproxy_network_programming_duration_seconds"]
	for s := 1; s <= 300; {
		programming = append(programming, strconv.Itoa(s))
		switch {
		case s < 60:
			s++
		case s < 115:
			s += 5
		case s == 115:
			s = 120
		default:
			s += 30
		}
	}
	want["kubeproxy_network_programming_duration_seconds"] = append(programming, "+Inf")
	text := ask(New(Config{}).MetricsHandler(Pages{}), "GET", "/metrics").Body.String()
	for name, buckets := range want {
		var got []string
		for _, found := range regexp.MustCompile(name+`_bucket\{ip_family="IPv4",le="([^"]+)"\}`).FindAllStringSubmatch(text, -1) {
			got = append(got, found[1])
		}
		if diff := cmp.Diff(buckets, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestStatement122Start: before anything happened, series stand at zero, and no
// timestamp pretends to be one.
func TestStatement122Start(t *testing.T) {
	got := scrape(t, New(Config{}))
	for _, sample := range []string{
		`kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv6"}`,
		`kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"}`,
		`kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"}`,
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"}`,
		`kubeproxy_sync_proxy_rules_service_changes_total`,
		`kubeproxy_proxy_healthz_total{code="503"}`,
		`kube_ipvs_proxy_rounds_total{result="incomplete"}`,
		`kube_ipvs_proxy_failures_total{class="other"}`,
		`kube_ipvs_proxy_repairs_total{what="virtual_server"}`,
	} {
		got.want(t, sample, 0)
	}
	for sample := range got.samples {
		if strings.HasPrefix(sample, "kubeproxy_sync_proxy_rules_last") {
			t.Errorf("%s is there before its time", sample)
		}
	}
}

func TestValuesArrive(t *testing.T) {
	got := scrape(t, used())
	for sample, value := range map[string]float64{
		`kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"}`:                             1,
		`kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family="IPv6",le="0.002"}`:                 0,
		`kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family="IPv6",le="0.004"}`:                 1,
		`kubeproxy_network_programming_duration_seconds_sum{ip_family="IPv6"}`:                            1.5,
		`kubeproxy_network_programming_duration_seconds_count{ip_family="IPv4"}`:                          0,
		`kubeproxy_sync_proxy_rules_service_changes_total`:                                                3,
		`kubeproxy_sync_proxy_rules_service_changes_pending`:                                              0,
		`kubeproxy_sync_proxy_rules_endpoint_changes_total`:                                               7,
		`kubeproxy_sync_proxy_rules_endpoint_changes_pending`:                                             5,
		`kubeproxy_sync_proxy_rules_iptables_restore_failures_total{ip_family="IPv4"}`:                    1,
		`kubeproxy_conntrack_reconciler_deleted_entries_total{ip_family="IPv4"}`:                          7,
		`kubeproxy_conntrack_reconciler_sync_duration_seconds_count{ip_family="IPv4"}`:                    1,
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv6",traffic_policy="internal"}`: 20,
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"}`: 21,
		`kubernetes_feature_enabled{name="KubeProxyIPVS",stage="DEPRECATED"}`:                             1,
		`rest_client_requests_total{code="200",host="api:6443",method="GET"}`:                             1,
		`kube_ipvs_proxy_operations_total{kind="real_server",result="success",verb="create"}`:             4,
		`kube_ipvs_proxy_operations_total{kind="real_server",result="failure",verb="create"}`:             1,
		`kube_ipvs_proxy_failures_total{class="busy"}`:                                                    1,
		`kube_ipvs_proxy_repairs_total{what="rules"}`:                                                     1,
		`kube_ipvs_proxy_rounds_total{result="complete"}`:                                                 1,
		`kube_ipvs_proxy_round_duration_seconds_count`:                                                    1,
		`kube_ipvs_proxy_pending_objects`:                                                                 1,
		`kube_ipvs_proxy_draining_real_servers`:                                                           2,
		`kube_ipvs_proxy_conflicts`:                                                                       3,
		`kube_ipvs_proxy_local_only_services`:                                                             4,
		`kube_ipvs_proxy_service_problems`:                                                                5,
		`kube_ipvs_proxy_manifest_problems`:                                                               6,
		`kube_ipvs_proxy_services`:                                                                        9,
		`kube_ipvs_proxy_virtual_servers{ip_family="IPv6"}`:                                               11,
		`kube_ipvs_proxy_real_servers{ip_family="IPv4"}`:                                                  12,
		`kube_ipvs_proxy_bound_addresses{ip_family="IPv6"}`:                                               15,
		`kube_ipvs_proxy_captured_addresses{ip_family="IPv4"}`:                                            16,
		`kube_ipvs_proxy_set_members{set="KUBE-CLUSTER-IP"}`:                                              18,
		`kube_ipvs_proxy_set_max_members{set="KUBE-CLUSTER-IP"}`:                                          19,
		`kube_ipvs_proxy_healthy`:                                                                         1,
		`kube_ipvs_proxy_oldest_pending_seconds`:                                                          0,
	} {
		got.want(t, sample, value)
	}
	now := float64(time.Now().Unix())
	for _, name := range []string{"last_timestamp_seconds", "last_queued_timestamp_seconds"} {
		sample := `kubeproxy_sync_proxy_rules_` + name + `{ip_family="IPv6"}`
		if at := got.samples[sample]; at < now-60 || at > now+60 {
			t.Errorf("%s is %f, want about %f", sample, at, now)
		}
	}
	if silence := got.samples[`kube_ipvs_proxy_seconds_since_last_event`]; silence < 0 || silence > 60 {
		t.Errorf("seconds since the last event: %f", silence)
	}
}

// TestIncompleteRound: what was not done is not reported as done.
func TestIncompleteRound(t *testing.T) {
	m := New(Config{})
	m.ServicesChanged(2)
	m.Begin()
	m.End(Round{Took: time.Second, Pending: 1})
	got := scrape(t, m)
	got.want(t, `kubeproxy_sync_proxy_rules_service_changes_pending`, 2)
	got.want(t, `kubeproxy_sync_proxy_rules_duration_seconds_count{ip_family="IPv4"}`, 1)
	got.want(t, `kube_ipvs_proxy_rounds_total{result="incomplete"}`, 1)
	if _, ok := got.samples[`kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family="IPv4"}`]; ok {
		t.Error("the time of the last complete round is there, though there was none")
	}
	if got.samples[`kube_ipvs_proxy_oldest_pending_seconds`] <= 0 {
		t.Error("nothing waits, though the round left something")
	}
}

// TestBoundedLabels: words out of the tables make no series of their own.
func TestBoundedLabels(t *testing.T) {
	m := New(Config{})
	before := len(scrape(t, m).samples)
	for i := range 100 {
		word := "word" + strconv.Itoa(i)
		m.Operations(word, word, 1, 1)
		m.Failures(word, 1)
		m.Repairs(word, 1)
	}
	got := scrape(t, m)
	got.want(t, `kube_ipvs_proxy_operations_total{kind="other",result="success",verb="other"}`, 100)
	got.want(t, `kube_ipvs_proxy_failures_total{class="other"}`, 100)
	got.want(t, `kube_ipvs_proxy_repairs_total{what="other"}`, 100)
	if grown := len(got.samples) - before; grown > 2 {
		t.Errorf("%d new series, want 2", grown)
	}
}

// TestGoneSet: a set that is no longer told leaves no series.
func TestGoneSet(t *testing.T) {
	m := New(Config{Families: []Family{IPv4}})
	told := map[string]int{"A": 1, "B": 2}
	m.SetInventory(Inventory{SetMembers: told})
	told["A"] = 100 // the caller's map stays the caller's
	scrape(t, m).want(t, `kube_ipvs_proxy_set_members{set="A"}`, 1)
	m.SetInventory(Inventory{SetMembers: map[string]int{"B": 3}})
	got := scrape(t, m)
	got.want(t, `kube_ipvs_proxy_set_members{set="B"}`, 3)
	if _, ok := got.samples[`kube_ipvs_proxy_set_members{set="A"}`]; ok {
		t.Error("set A is still there")
	}
	for sample := range got.samples {
		if strings.Contains(sample, `"IPv6"`) {
			t.Errorf("%s on a node without IPv6", sample)
		}
	}
}
