package main

import (
	"log/slog"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/health"
	"kube-ipvs-proxy/proxier/watch"
)

// metric reads one metric as it is told to the world.
func metric(t *testing.T, m *monitor, name string) float64 {
	t.Helper()
	w := httptest.NewRecorder()
	m.MetricsHandler(health.Pages{}).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if text, ok := strings.CutPrefix(line, name+" "); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("no metric %s in\n%s", name, w.Body.String())
	return 0
}

func TestHeardOfAPIServer(t *testing.T) {
	start := time.Now()
	states := []watch.ResourceState{
		{Resource: "services", Seen: start, Changes: 3},
		{Resource: "endpointslices", Seen: start, Changes: 5},
		{Resource: "nodes"},
	}
	m := newMonitor(config.Options{}, &source{
		problems: func() []watch.Problem { return make([]watch.Problem, 2) },
		events:   watch.NoEvents{},
		states:   func() []watch.ResourceState { return states },
	}, slog.New(slog.DiscardHandler))
	m.listen(true)
	check := func(services, slices float64) {
		t.Helper()
		got := [2]float64{
			metric(t, m, "kubeproxy_sync_proxy_rules_service_changes_total"),
			metric(t, m, "kubeproxy_sync_proxy_rules_endpoint_changes_total"),
		}
		if got != [2]float64{services, slices} {
			t.Errorf("changes are %v, want %v and %v", got, services, slices)
		}
	}
	check(3, 5)
	if n := metric(t, m, "kube_ipvs_proxy_manifest_problems"); n != 2 {
		t.Errorf("problems are %v", n)
	}
	const silence = "kube_ipvs_proxy_seconds_since_last_event"
	time.Sleep(100 * time.Millisecond)
	states[0].Seen, states[0].Changes = time.Now(), 4
	m.listen(true)
	check(4, 5)
	long := metric(t, m, silence)
	if long < 0.1 {
		t.Errorf("%v s since the last event, although slices are silent", long)
	}
	states[1].Seen = time.Now()
	m.listen(false)
	if s := metric(t, m, silence); s >= long {
		t.Errorf("%v s since the last event, before it %v", s, long)
	}
}

func TestProgrammedTriggers(t *testing.T) {
	m := newMonitor(config.Options{}, &source{events: watch.NoEvents{}}, slog.New(slog.DiscardHandler))
	now := time.Now()
	m.triggers = []watch.Trigger{{At: now.Add(-2 * time.Second)}, {At: now.Add(-time.Second), IPv6: true}, {At: now.Add(-time.Second)}}
	m.programmed(now)
	m.programmed(now)
	const sum = `kubeproxy_network_programming_duration_seconds_sum{ip_family=`
	if v4, v6 := metric(t, m, sum+`"IPv4"}`), metric(t, m, sum+`"IPv6"}`); v4 != 3 || v6 != 1 {
		t.Errorf("seconds are %v and %v, want 3 and 1", v4, v6)
	}
}
