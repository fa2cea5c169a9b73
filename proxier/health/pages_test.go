package health

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestStatement123AndPages(t *testing.T) {
	m := New(Config{Build: Build{Version: "v1.2.3"}})
	h := m.MetricsHandler(Pages{
		Config: func() ([]byte, error) { return []byte(`{"kubeproxy.config.k8s.io":{}}`), nil },
		Flags:  func() map[string]string { return map[string]string{"v": "2", "config": "/etc/x"} },
	})
	for path, want := range map[string]struct{ contentType, body string }{
		"/proxyMode": {"text/plain; charset=utf-8", "ipvs"},
		"/healthz":   {"text/plain; charset=utf-8", "ok"},
		"/configz":   {"application/json", `{"kubeproxy.config.k8s.io":{}}`},
	} {
		w := ask(h, "GET", path)
		if w.Code != 200 || w.Body.String() != want.body || w.Header().Get("Content-Type") != want.contentType {
			t.Errorf("%s: %d %q %q, want 200 %q %q", path, w.Code, w.Header().Get("Content-Type"), w.Body,
				want.contentType, want.body)
		}
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: no nosniff", path)
		}
	}
	if body := ask(h, "GET", "/flagz").Body.String(); !strings.HasSuffix(body, "\nconfig=/etc/x\nv=2\n") {
		t.Errorf("/flagz: %q", body)
	}
	status := ask(h, "GET", "/statusz").Body.String()
	for _, want := range []string{
		"\nStarted: ", "\nUp: 0s\n", "\nGo version: go1", "\nBinary version: v1.2.3\n",
		"\nPaths: /configz /flagz /healthz /metrics /metrics/slis /proxyMode /statusz\n",
	} {
		if !strings.Contains(status, want) {
			t.Errorf("/statusz lacks %q:\n%s", want, status)
		}
	}
}

func TestPagesThatAreOff(t *testing.T) {
	h := New(Config{}).MetricsHandler(Pages{SetVerbosity: func(string) error { return nil }})
	for _, path := range []string{"/configz", "/flagz", "/debug/pprof/", "/debug/flags/v", "/livez", "/"} {
		if w := ask(h, "GET", path); w.Code != 404 {
			t.Errorf("%s: code %d, want 404", path, w.Code)
		}
	}
}

func TestBrokenConfig(t *testing.T) {
	h := New(Config{}).MetricsHandler(Pages{Config: func() ([]byte, error) { return nil, errors.New("no") }})
	if w := ask(h, "GET", "/configz"); w.Code != 500 {
		t.Errorf("code %d, want 500", w.Code)
	}
}

func TestProfiling(t *testing.T) {
	level := ""
	h := New(Config{}).MetricsHandler(Pages{Profiling: true, SetVerbosity: func(l string) error {
		if l == "loud" {
			return errors.New("no number")
		}
		level = l
		return nil
	}})
	if w := ask(h, "GET", "/debug/pprof/"); w.Code != 200 || !strings.Contains(w.Body.String(), "goroutine") {
		t.Errorf("/debug/pprof/: %d", w.Code)
	}
	if w := ask(h, "GET", "/debug/pprof/cmdline"); w.Code != 200 {
		t.Errorf("/debug/pprof/cmdline: %d", w.Code)
	}
	if w := ask(h, "GET", "/debug/pprof"); w.Code != 301 {
		t.Errorf("/debug/pprof: %d", w.Code)
	}
	put := func(body string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPut, "/debug/flags/v", strings.NewReader(body)))
		return w.Code
	}
	if code := put(" 4\n"); code != 200 || level != "4" {
		t.Errorf("PUT 4: %d, level %q", code, level)
	}
	if code := put("loud"); code != 400 || level != "4" {
		t.Errorf("PUT loud: %d, level %q", code, level)
	}
	if code := put(strings.Repeat("4", 1000)); code != 400 || level != "4" {
		t.Errorf("PUT of a long body: %d, level %q", code, level)
	}
	if w := ask(h, "GET", "/debug/flags/v"); w.Code != 405 {
		t.Errorf("GET /debug/flags/v: %d", w.Code)
	}
}

func TestSLIs(t *testing.T) {
	m := New(Config{})
	h := m.MetricsHandler(Pages{})
	slis := func() exposition { return parse(t, ask(h, "GET", "/metrics/slis").Body.String()) }
	if got := slis(); len(got.samples) != 0 {
		t.Errorf("samples before a health check: %v", got.samples)
	}
	ask(h, "GET", "/healthz")
	ask(h, "GET", "/healthz")
	ask(m.HealthHandler(), "GET", "/healthz") // no Node
	ask(m.HealthHandler(), "GET", "/livez")
	got := slis()
	got.want(t, `kubernetes_healthcheck{name="ping",type="healthz"}`, 1)
	got.want(t, `kubernetes_healthchecks_total{name="ping",status="success",type="healthz"}`, 2)
	got.want(t, `kubernetes_healthcheck{name="service-proxy",type="healthz"}`, 0)
	got.want(t, `kubernetes_healthchecks_total{name="service-proxy",status="error",type="healthz"}`, 1)
	got.want(t, `kubernetes_healthcheck{name="service-proxy",type="livez"}`, 1)
	if w := ask(h, "DELETE", "/metrics/slis"); w.Code != 200 {
		t.Errorf("DELETE: %d", w.Code)
	}
	if got := slis(); len(got.samples) != 0 {
		t.Errorf("samples after DELETE: %v", got.samples)
	}
}
