package deploy

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/proxier/health"
)

// series are the metrics of the program, each with the names of its labels.
func series(t *testing.T) map[string][]string {
	t.Helper()
	m := health.New(health.Config{Families: []health.Family{health.IPv4, health.IPv6}})
	m.Begin()
	m.End(health.Round{Took: time.Millisecond, Complete: true})
	m.SourceHeard()
	m.SetInventory(health.Inventory{SetMembers: map[string]int{"KUBE-CLUSTER-IP": 1}})
	m.RESTRequest("200", "GET", "api:6443")
	m.Operations("real_server", "create", 1, 0)
	answer := httptest.NewRecorder()
	m.MetricsHandler(health.Pages{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	found := map[string][]string{}
	label := regexp.MustCompile(`([a-z_]+)="`)
	for line := range strings.Lines(answer.Body.String()) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		name := line[:strings.IndexAny(line, "{ ")]
		labels := []string{"instance", "job"} // of the scraper
		for _, l := range label.FindAllStringSubmatch(line, -1) {
			labels = append(labels, l[1])
		}
		found[name] = labels
	}
	if len(found) < 50 {
		t.Fatalf("only %d series", len(found))
	}
	return found
}

type dashboard struct {
	UID    string
	Panels []struct {
		Type    string
		Title   string
		Targets []struct{ Expr, LegendFormat string }
	}
	Templating struct {
		List []struct{ Name, Query string }
	}
}

var (
	metricName = regexp.MustCompile(`\b(?:kube|kubeproxy|process|rest_client|go)_[a-z_]+`)
	by         = regexp.MustCompile(`\bby \(([a-z_, ]+)\)`)
	matched    = regexp.MustCompile(`([a-z_]+)=~`)
	legend     = regexp.MustCompile(`{{([a-z_]+)}}`)
)

// TestDashboardAsksForWhatThereIs: each panel's metric and labels exist.
func TestDashboardAsksForWhatThereIs(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(Dir, "grafana", "kube-ipvs-proxy.json"))
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	have := series(t)
	queries := 0
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			queries++
			for _, problem := range problems(target.Expr, target.LegendFormat, have) {
				t.Errorf("panel %q: %s", p.Title, problem)
			}
		}
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("panel %q asks nothing", p.Title)
		}
	}
	if queries < 20 {
		t.Errorf("%d queries", queries)
	}
	for _, v := range d.Templating.List {
		if name := metricName.FindString(v.Query); v.Name == "instance" && have[name] == nil {
			t.Errorf("variable %s: no metric %q", v.Name, name)
		}
	}
}

// problems are the names of a query that do not exist.
func problems(expr, shown string, have map[string][]string) []string {
	var found []string
	names := metricName.FindAllString(expr, -1)
	if len(names) != 1 {
		return []string{"not one metric: " + expr}
	}
	labels, ok := have[names[0]]
	if !ok {
		return []string{"no metric " + names[0]}
	}
	var wanted []string
	for _, m := range append(matched.FindAllStringSubmatch(expr, -1), legend.FindAllStringSubmatch(shown, -1)...) {
		wanted = append(wanted, m[1])
	}
	for _, m := range by.FindAllStringSubmatch(expr, -1) {
		wanted = append(wanted, strings.Split(m[1], ", ")...)
	}
	for _, label := range wanted {
		if !slices.Contains(labels, label) {
			found = append(found, names[0]+" has no label "+label)
		}
	}
	if strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Count(expr, "{") != strings.Count(expr, "}") {
		found = append(found, "brackets: "+expr)
	}
	return found
}

// TestDashboardTestBites shows it wrong queries.
func TestDashboardTestBites(t *testing.T) {
	have := map[string][]string{"kube_x_total": {"instance", "kind"}}
	for query, want := range map[[2]string]int{
		{`sum by (kind) (rate(kube_x_total{instance=~"$instance"}[5m]))`, "{{kind}}"}: 0,
		{`sum by (kind, verb) (kube_x_total)`, ""}:                                    1,
		{`kube_x_total{node=~"a"}`, ""}:                                               1,
		{`kube_x_total`, "{{verb}}"}:                                                  1,
		{`kube_y_total`, ""}:                                                          1,
		{`up`, ""}:                                                                    1,
		{`sum(kube_x_total`, ""}:                                                      1,
	} {
		if got := problems(query[0], query[1], have); len(got) != want {
			t.Errorf("%q: problems %q, want %d", query, got, want)
		}
	}
}
