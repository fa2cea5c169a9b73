package health

import (
	"encoding/json"
	"net/http"
	"time"
)

// status is the body of /healthz and /livez.
type status struct {
	LastUpdated time.Time `json:"lastUpdated"`
	CurrentTime time.Time `json:"currentTime"`
	// NodeEligible is nil, and left out, for /livez.
	NodeEligible *bool `json:"nodeEligible,omitempty"`
	Healthy      bool  `json:"healthy"`
	// Status has "IPv4" and "IPv6", as far as the node has them.
	Status map[string]familyStatus `json:"status,omitempty"`
}

type familyStatus struct {
	LastUpdated time.Time `json:"lastUpdated"`
	Healthy     bool      `json:"healthy"`
}

// HealthHandler serves /healthz and /livez, any method. /healthz is 200 when the
// proxy is healthy and the node eligible: it is for load balancers, and not for a
// liveness probe, which would restart the proxy of a node that is drained. /livez
// is 200 when the proxy is healthy.
func (m *Monitor) HealthHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		s := m.health.state()
		body := m.health.body(s)
		body.NodeEligible = &s.eligible
		m.answer(w, healthz, body, s.healthy && s.eligible)
	})
	mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) {
		s := m.health.state()
		m.answer(w, livez, m.health.body(s), s.healthy)
	})
	return mux
}

func (h *Health) body(s state) status {
	b := status{LastUpdated: s.updated, CurrentTime: s.now, Healthy: s.healthy, Status: map[string]familyStatus{}}
	for _, f := range h.families {
		b.Status[f.String()] = familyStatus{LastUpdated: s.updated, Healthy: s.healthy}
	}
	return b
}

// answer writes the body. While all is well, lastUpdated at the top is now: some
// load balancers take an old time for a dead proxy, though nothing had changed.
func (m *Monitor) answer(w http.ResponseWriter, p probe, body status, ok bool) {
	code := http.StatusServiceUnavailable
	if ok {
		code, body.LastUpdated = http.StatusOK, body.CurrentTime
	}
	m.probed(p, code)
	text, err := json.Marshal(body)
	if err != nil { // a time outside of years 0-9999
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, code, text)
}

// writeJSON answers with a JSON text. A client that went away is no error of ours.
func writeJSON(w http.ResponseWriter, code int, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write(text)
}

// writeText answers with a plain text.
func writeText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text))
}
