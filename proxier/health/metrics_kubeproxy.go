package health

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// kubeproxyMetrics are those that kube-proxy 1.37 has in mode ipvs, with its names,
// types, labels and buckets (kubernetes pkg/proxy/metrics).
type kubeproxyMetrics struct {
	duration, programming, flowsDuration *prometheus.HistogramVec
	lastDone, lastQueued                 *prometheus.GaugeVec
	restoreFailures, flowsDeleted        *prometheus.CounterVec
}

const labelFamily = "ip_family"

// The buckets, in seconds. The histogram of network programming has a bucket at
// zero in kube-proxy too.
func durationBuckets() []float64 { return prometheus.ExponentialBuckets(0.001, 2, 15) }

func programmingBuckets() []float64 {
	return slices.Concat([]float64{0, 0.25, 0.5}, prometheus.LinearBuckets(1, 1, 59),
		prometheus.LinearBuckets(60, 5, 12), prometheus.LinearBuckets(120, 30, 7))
}

func newKubeproxyMetrics(families []Family) kubeproxyMetrics {
	k := kubeproxyMetrics{
		duration: histogram("kubeproxy_sync_proxy_rules_duration_seconds",
			"Duration of rounds, failed ones too.", durationBuckets(), labelFamily),
		programming: histogram("kubeproxy_network_programming_duration_seconds",
			"Time from the change of a pod or Service to the kernel serving it.", programmingBuckets(), labelFamily),
		flowsDuration: histogram("kubeproxy_conntrack_reconciler_sync_duration_seconds",
			"Duration of removing stale conntrack flows.", durationBuckets(), labelFamily),
		lastDone: gauge("kubeproxy_sync_proxy_rules_last_timestamp_seconds",
			"Time at which the kernel last equalled the plan.", labelFamily),
		lastQueued: gauge("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds",
			"Time at which a change was last noticed.", labelFamily),
		restoreFailures: counter("kubeproxy_sync_proxy_rules_iptables_restore_failures_total",
			"Failed writes of iptables rules.", labelFamily),
		flowsDeleted: counter("kubeproxy_conntrack_reconciler_deleted_entries_total",
			"Stale conntrack flows that were removed.", labelFamily),
	}
	for _, f := range families {
		family := f.String()
		k.duration.WithLabelValues(family)
		k.programming.WithLabelValues(family)
		k.flowsDuration.WithLabelValues(family)
		k.restoreFailures.WithLabelValues(family)
		k.flowsDeleted.WithLabelValues(family)
	}
	return k
}

func (k kubeproxyMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		k.duration, k.programming, k.flowsDuration, k.lastDone, k.lastQueued, k.restoreFailures, k.flowsDeleted,
	}
}

// NetworkProgramming records the time from a change (the annotation
// endpoints.kubernetes.io/last-change-trigger-time of an EndpointSlice) to the end
// of the round that brought it to the kernel. Deletions and what was there before
// the proxy are not recorded.
func (m *Monitor) NetworkProgramming(f Family, d time.Duration) {
	m.kubeproxy.programming.WithLabelValues(f.String()).Observe(d.Seconds())
}

// RestoreFailed counts a failed write of static rules.
func (m *Monitor) RestoreFailed(f Family) {
	m.kubeproxy.restoreFailures.WithLabelValues(f.String()).Inc()
}

// StaleFlows records one removal of stale conntrack flows.
func (m *Monitor) StaleFlows(f Family, took time.Duration, deleted int) {
	m.kubeproxy.flowsDuration.WithLabelValues(f.String()).Observe(took.Seconds())
	m.kubeproxy.flowsDeleted.WithLabelValues(f.String()).Add(float64(deleted))
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
}

func gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}
