package health

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// events remembers when the source was last heard.
type events struct{ last atomic.Int64 }

func (e *events) heard() { e.last.Store(time.Now().UnixNano()) }

func (e *events) silence() float64 { return time.Since(time.Unix(0, e.last.Load())).Seconds() }

// SourceHeard notes that the source said something: an event, a bookmark, a
// complete read. A source that is silent for long may be cut off.
func (m *Monitor) SourceHeard() { m.events.heard() }

// gauges returns the metrics that are computed when somebody asks.
func (m *Monitor) gauges() []prometheus.Collector {
	total := func(c *changeCount) float64 { return float64(c.total) }
	pending := (*changeCount).pending
	c := &m.changes
	return []prometheus.Collector{
		gaugeFunc("kubeproxy_sync_proxy_rules_service_changes_pending",
			"Changes of Services that no complete round covered.", c.read(&c.services, pending)),
		counterFunc("kubeproxy_sync_proxy_rules_service_changes_total",
			"Changes of Services that were noticed.", c.read(&c.services, total)),
		gaugeFunc("kubeproxy_sync_proxy_rules_endpoint_changes_pending",
			"Changes of EndpointSlices that no complete round covered.", c.read(&c.endpoints, pending)),
		counterFunc("kubeproxy_sync_proxy_rules_endpoint_changes_total",
			"Changes of EndpointSlices that were noticed.", c.read(&c.endpoints, total)),
		gaugeFunc(ownPrefix+"healthy",
			"1 while what was asked for is in the kernel, or on its way there in time.", func() float64 {
				if m.health.Healthy() {
					return 1
				}
				return 0
			}),
		gaugeFunc(ownPrefix+"oldest_pending_seconds",
			"Age of the oldest change that is not in the kernel; 0 when there is none.",
			func() float64 { return m.health.Waiting().Seconds() }),
		gaugeFunc(ownPrefix+"seconds_since_last_event",
			"Time since the source of Services was last heard, or since the start.", m.events.silence),
	}
}

func gaugeFunc(name, help string, read func() float64) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
}

func counterFunc(name, help string, read func() float64) prometheus.Collector {
	return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, read)
}
