package health

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

// wantAnswer checks the code, the headers and the whole body, with times as they are.
func wantAnswer(t *testing.T, w *httptest.ResponseRecorder, code int, body map[string]any) {
	t.Helper()
	if w.Code != code {
		t.Errorf("code %d, want %d", w.Code, code)
	}
	for name, want := range map[string]string{"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"} {
		if got := w.Header().Get(name); got != want {
			t.Errorf("%s %q, want %q", name, got, want)
		}
	}
	var got map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		t.Fatalf("body %q: %v", w.Body, err)
	}
	if diff := cmp.Diff(body, got); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
}

// TestStatement116And117Health: eligible, leaving, late, and well again.
func TestStatement116And117Health(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().Format(time.RFC3339Nano)
		m := New(Config{Timeout: time.Minute})
		h := m.HealthHandler()
		body := func(updated, of string, healthy bool) map[string]any {
			family := map[string]any{"lastUpdated": of, "healthy": healthy}
			return map[string]any{
				"lastUpdated": updated, "currentTime": time.Now().Format(time.RFC3339Nano), "healthy": healthy,
				"status": map[string]any{"IPv4": family, "IPv6": family},
			}
		}
		with := func(b map[string]any, eligible bool) map[string]any { b["nodeEligible"] = eligible; return b }
		now := func() string { return time.Now().Format(time.RFC3339Nano) }

		time.Sleep(10 * time.Second)
		wantAnswer(t, ask(h, "GET", "/healthz"), 503, with(body(start, start, true), false)) // no Node yet
		m.Health().SetEligible(true)
		wantAnswer(t, ask(h, "GET", "/healthz"), 200, with(body(now(), start, true), true))
		wantAnswer(t, ask(h, "GET", "/livez"), 200, body(now(), start, true))

		m.Health().SetEligible(false)
		wantAnswer(t, ask(h, "POST", "/healthz"), 503, with(body(start, start, true), false))
		wantAnswer(t, ask(h, "POST", "/livez"), 200, body(now(), start, true))
		m.Health().SetEligible(true)

		m.Queued()
		time.Sleep(time.Minute)
		wantAnswer(t, ask(h, "GET", "/healthz"), 503, with(body(start, start, false), true))
		wantAnswer(t, ask(h, "GET", "/livez"), 503, body(start, start, false))

		m.Begin()
		m.End(Round{Complete: true})
		done := now()
		time.Sleep(5 * time.Second)
		wantAnswer(t, ask(h, "GET", "/healthz"), 200, with(body(now(), done, true), true))
		wantAnswer(t, ask(h, "GET", "/livez"), 200, body(now(), done, true))

		if w := ask(h, "GET", "/other"); w.Code != 404 {
			t.Errorf("/other: code %d, want 404", w.Code)
		}
		got := scrape(t, m)
		got.want(t, `kubeproxy_proxy_healthz_total{code="200"}`, 2)
		got.want(t, `kubeproxy_proxy_healthz_total{code="503"}`, 3)
		got.want(t, `kubeproxy_proxy_livez_total{code="200"}`, 3)
		got.want(t, `kubeproxy_proxy_livez_total{code="503"}`, 1)
	})
}

func TestHealthOfOneFamily(t *testing.T) {
	m := New(Config{Families: []Family{IPv6}})
	var body struct{ Status map[string]any }
	if err := json.Unmarshal(ask(m.HealthHandler(), "GET", "/livez").Body.Bytes(), &body); err != nil {
		t.Fatal(err)
	}
	if _, ok := body.Status["IPv6"]; !ok || len(body.Status) != 1 {
		t.Errorf("status %v, want IPv6 alone", body.Status)
	}
}
