package health

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Config is what a Monitor is built from.
type Config struct {
	// Timeout is how long a change may wait before the proxy is unhealthy; zero means
	// DefaultTimeout.
	Timeout time.Duration
	// Families are those that the node has; none means both.
	Families []Family
	Build    Build
	// Features are told as the metric kubernetes_feature_enabled.
	Features []Feature
}

// Monitor is what the loop tells about itself. It keeps Health and the metrics
// together, so that one call serves both. It has its own registry: two Monitors in
// one process do not meet. Methods may be called from any goroutine.
type Monitor struct {
	health   *Health
	families []Family
	build    Build
	// registry is that of /metrics, slis that of /metrics/slis.
	registry, slis *prometheus.Registry
	kubeproxy      kubeproxyMetrics
	own            ownMetrics
	probes         probeMetrics
	rest           restMetrics
	inventory      *inventoryCollector
	changes        changes
	events         events
}

// New returns a Monitor whose metrics stand at zero. The two timestamps of
// kube-proxy are absent until there is one: a zero would be an age of fifty years.
func New(config Config) *Monitor {
	families := config.Families
	if len(families) == 0 {
		families = []Family{IPv4, IPv6}
	}
	m := &Monitor{
		health:   NewHealth(config.Timeout, families...),
		families: families, build: config.Build,
		registry: prometheus.NewRegistry(), slis: prometheus.NewRegistry(),
		kubeproxy: newKubeproxyMetrics(families),
		own:       newOwnMetrics(),
		probes:    newProbeMetrics(),
		rest:      newRESTMetrics(),
		inventory: newInventoryCollector(families),
	}
	m.events.heard()
	m.registry.MustRegister(m.kubeproxy.all()...)
	m.registry.MustRegister(m.own.all()...)
	m.registry.MustRegister(m.rest.all()...)
	m.registry.MustRegister(m.probes.healthz, m.probes.livez, m.inventory)
	m.registry.MustRegister(m.gauges()...)
	m.registry.MustRegister(standard(config.Build, config.Features)...)
	m.slis.MustRegister(m.probes.last, m.probes.total)
	return m
}

// Health is the state that the Monitor keeps.
func (m *Monitor) Health() *Health { return m.health }

// Queued notes that something changed that a round has to bring to the kernel. Call
// it where the change is noticed, before the loop is woken: a loop that hangs is
// then told from one that has nothing to do.
func (m *Monitor) Queued() {
	m.health.Queued()
	for _, f := range m.families {
		m.kubeproxy.lastQueued.WithLabelValues(f.String()).SetToCurrentTime()
	}
}

// Begin notes that a round starts; call it before the dirty names are drained.
func (m *Monitor) Begin() {
	m.health.Begin()
	m.changes.begin()
}

// Round is what one round did and what it left.
type Round struct {
	// Took is the time from Begin to End.
	Took time.Duration
	// Complete: nothing is left undone, so that the kernel equals the plan. Drains
	// and Services that cannot be served are not undone work.
	Complete bool
	// Pending counts objects that are not yet right in the kernel, Draining the real
	// servers that wait for their connections to end.
	Pending, Draining int
	// Conflicts counts frontends that several Services claim; LocalOnly the Services
	// whose clients on this node reach local endpoints only, for want of a mark;
	// Problems the parts of Services that cannot be served.
	Conflicts, LocalOnly, Problems int
}

// End notes that a round ended.
func (m *Monitor) End(r Round) {
	m.health.End(r.Complete)
	if r.Complete {
		m.changes.done()
	}
	for _, f := range m.families {
		m.kubeproxy.duration.WithLabelValues(f.String()).Observe(r.Took.Seconds())
		if r.Complete {
			m.kubeproxy.lastDone.WithLabelValues(f.String()).SetToCurrentTime()
		}
	}
	m.own.round(r)
}
