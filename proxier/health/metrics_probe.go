package health

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
)

// probe is a health endpoint that counts its answers.
type probe uint8

const (
	healthz probe = iota // /healthz of the health server
	livez                // /livez of the health server
	ping                 // /healthz of the metrics server
)

// sli is the name and type that a probe has in the metrics of /metrics/slis
// (KEP-3466).
func (p probe) sli() (name, kind string) {
	switch p {
	case healthz:
		return "service-proxy", "healthz"
	case livez:
		return "service-proxy", "livez"
	default:
		return "ping", "healthz"
	}
}

// probeMetrics count what probes were answered.
type probeMetrics struct {
	healthz, livez, total *prometheus.CounterVec
	last                  *prometheus.GaugeVec
}

func newProbeMetrics() probeMetrics {
	p := probeMetrics{
		healthz: counter("kubeproxy_proxy_healthz_total", "Answers of /healthz by HTTP status.", "code"),
		livez:   counter("kubeproxy_proxy_livez_total", "Answers of /livez by HTTP status.", "code"),
		last:    gauge("kubernetes_healthcheck", "Result of the last health check; 1 is success.", "name", "type"),
		total:   counter("kubernetes_healthchecks_total", "Health checks by result.", "name", "type", "status"),
	}
	for _, code := range []string{"200", "503"} {
		p.healthz.WithLabelValues(code)
		p.livez.WithLabelValues(code)
	}
	return p
}

// probed counts an answer.
func (m *Monitor) probed(p probe, code int) {
	switch p {
	case healthz:
		m.probes.healthz.WithLabelValues(strconv.Itoa(code)).Inc()
	case livez:
		m.probes.livez.WithLabelValues(strconv.Itoa(code)).Inc()
	case ping:
	}
	name, kind := p.sli()
	value, status := 0.0, "error"
	if code == http.StatusOK {
		value, status = 1, "success"
	}
	m.probes.last.WithLabelValues(name, kind).Set(value)
	m.probes.total.WithLabelValues(name, kind, status).Inc()
}
