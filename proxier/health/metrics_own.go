package health

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// ownPrefix starts the names of the metrics that kube-proxy does not have.
const ownPrefix = "kube_ipvs_proxy_"

// other is the label of what is not in a table below: labels are few and known, so
// that no object's name can swell the registry.
const other = "other"

// The words that operations, failures and repairs are told with.
var (
	opKinds = []string{
		"address", "device", "flow", "member", "real_server", "route", "rules", "set", "virtual_server",
	}
	opVerbs        = []string{"create", "update", "delete", "drain", "ensure", "grow", "replace", "list"}
	failureClasses = []string{
		"busy", "exists", "full", "interrupted", "invalid", "missing", "permission", "panic", "scheduler", "timeout",
	}
)

func bounded(word string, table []string) string {
	if slices.Contains(table, word) {
		return word
	}
	return other
}

type ownMetrics struct {
	operations, failures, repairs, rounds *prometheus.CounterVec
	duration                              prometheus.Histogram
	pending, draining                     prometheus.Gauge
	conflicts, localOnly, problems        prometheus.Gauge
	manifests                             prometheus.Gauge
}

func newOwnMetrics() ownMetrics {
	number := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: ownPrefix + name, Help: help})
	}
	o := ownMetrics{
		operations: counter(ownPrefix+"operations_total",
			"Operations that the kernel was asked for.", "kind", "verb", "result"),
		failures: counter(ownPrefix+"failures_total", "Failures by class.", "class"),
		repairs: counter(ownPrefix+"repairs_total",
			"Objects that something else had changed or removed, and that were put right.", "what"),
		rounds: counter(ownPrefix+"rounds_total",
			"Rounds by result; incomplete ones left something undone.", "result"),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: ownPrefix + "round_duration_seconds", Help: "Duration of rounds.",
			// 100 us to 26 s: a round of one change is far below a millisecond.
			Buckets: prometheus.ExponentialBuckets(0.0001, 2, 19),
		}),
		pending:   number("pending_objects", "Objects that are not yet right in the kernel."),
		draining:  number("draining_real_servers", "Real servers that wait for their connections to end."),
		conflicts: number("conflicts", "Frontends that several Services claim; the oldest has it."),
		localOnly: number("local_only_services",
			"Services whose clients on this node reach only endpoints on this node, for want of a free mark."),
		problems:  number("service_problems", "Parts of Services that cannot be served."),
		manifests: number("manifest_problems", "Places in manifests or objects that could not be read."),
	}
	for _, result := range []string{complete, incomplete} {
		o.rounds.WithLabelValues(result)
	}
	for _, class := range append(slices.Clone(failureClasses), other) {
		o.failures.WithLabelValues(class)
	}
	for _, kind := range append(slices.Clone(opKinds), other) {
		o.repairs.WithLabelValues(kind)
	}
	return o
}

func (o ownMetrics) all() []prometheus.Collector {
	return []prometheus.Collector{
		o.operations, o.failures, o.repairs, o.rounds, o.duration, o.pending, o.draining,
		o.conflicts, o.localOnly, o.problems, o.manifests,
	}
}

// The results of rounds and of operations.
const (
	complete   = "complete"
	incomplete = "incomplete"
	success    = "success"
	failure    = "failure"
)

func (o ownMetrics) round(r Round) {
	result := incomplete
	if r.Complete {
		result = complete
	}
	o.rounds.WithLabelValues(result).Inc()
	o.duration.Observe(r.Took.Seconds())
	o.pending.Set(float64(r.Pending))
	o.draining.Set(float64(r.Draining))
	o.conflicts.Set(float64(r.Conflicts))
	o.localOnly.Set(float64(r.LocalOnly))
	o.problems.Set(float64(r.Problems))
}

// Operations counts operations of one kind ("virtual_server", "real_server",
// "member", "set", "address", "route", "rules", "flow", "device") and verb
// ("create", "update", "delete", "drain", "ensure", "grow", "replace", "list") that succeeded and that
// failed. Other words count as "other".
func (m *Monitor) Operations(kind, verb string, succeeded, failed int) {
	kind, verb = bounded(kind, opKinds), bounded(verb, opVerbs)
	m.own.operations.WithLabelValues(kind, verb, success).Add(float64(succeeded))
	m.own.operations.WithLabelValues(kind, verb, failure).Add(float64(failed))
}

// Failures counts n failures of one class: "busy", "exists", "full", "interrupted",
// "invalid", "missing", "permission", "panic", "scheduler" or "timeout". Other words
// count as "other".
func (m *Monitor) Failures(class string, n int) {
	m.own.failures.WithLabelValues(bounded(class, failureClasses)).Add(float64(n))
}

// Repairs counts n objects of a kind, see Operations, that something else had
// changed or removed and that were put right.
func (m *Monitor) Repairs(kind string, n int) {
	m.own.repairs.WithLabelValues(bounded(kind, opKinds)).Add(float64(n))
}

// ManifestProblems says how many places of the source cannot be read now.
func (m *Monitor) ManifestProblems(n int) { m.own.manifests.Set(float64(n)) }
