package health

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// restMetrics are those of the client of the API server, with the names and labels
// that every Kubernetes component has (component-base metrics/prometheus/restclient).
type restMetrics struct {
	requests, retries   *prometheus.CounterVec
	duration, throttled *prometheus.HistogramVec
}

func newRESTMetrics() restMetrics {
	buckets := []float64{0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60}
	return restMetrics{
		requests: counter("rest_client_requests_total",
			"Requests to the API server.", "code", "method", "host"),
		retries: counter("rest_client_request_retries_total",
			"Repeated requests to the API server.", "code", "verb", "host"),
		duration: histogram("rest_client_request_duration_seconds",
			"Duration of requests to the API server.", buckets, "verb", "host"),
		throttled: histogram("rest_client_rate_limiter_duration_seconds",
			"Time that the client's own rate limit held requests back.", buckets, "verb", "host"),
	}
}

func (r restMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{r.requests, r.retries, r.duration, r.throttled}
}

// RESTRequest counts an answered request to the API server; code is "<error>" when
// there was no answer.
func (m *Monitor) RESTRequest(code, method, host string) {
	m.rest.requests.WithLabelValues(code, method, host).Inc()
}

// RESTRetry counts a repeated request.
func (m *Monitor) RESTRetry(code, verb, host string) {
	m.rest.retries.WithLabelValues(code, verb, host).Inc()
}

// RESTDuration records how long a request took.
func (m *Monitor) RESTDuration(verb, host string, took time.Duration) {
	m.rest.duration.WithLabelValues(verb, host).Observe(took.Seconds())
}

// RESTThrottled records how long the client's own rate limit held a request back.
func (m *Monitor) RESTThrottled(verb, host string, waited time.Duration) {
	m.rest.throttled.WithLabelValues(verb, host).Observe(waited.Seconds())
}
