package main

import (
	"time"

	"kube-ipvs-proxy/proxier/health"
	"kube-ipvs-proxy/proxier/watch"
)

// listenPeriod is how often the metrics learn when the API server was last heard:
// its bookmarks wake nobody.
const listenPeriod = 5 * time.Second

// maxTriggers bounds what is remembered of changes that do not reach the kernel.
const maxTriggers = 10_000

// heard is what was last known of the source. One goroutine uses it.
type heard struct {
	seen                     time.Time
	services, endpointSlices uint64
}

// listen tells the metrics what the source has heard; changed: it has news. The
// API server counts as heard when both Services and EndpointSlices are.
func (m *monitor) listen(h *heard, changed bool) {
	m.ManifestProblems(len(m.source.problems()))
	if m.source.states == nil {
		if changed {
			m.SourceHeard()
		}
		return
	}
	now := heard{}
	for _, s := range m.source.states() {
		switch s.Resource {
		case "services":
			now.services = s.Changes
		case "endpointslices":
			now.endpointSlices = s.Changes
		default:
			continue
		}
		if now.seen.IsZero() || s.Seen.Before(now.seen) {
			now.seen = s.Seen
		}
	}
	if now.seen.After(h.seen) {
		m.SourceHeard()
	}
	m.ServicesChanged(int(now.services - h.services))
	m.EndpointsChanged(int(now.endpointSlices - h.endpointSlices))
	*h = now
}

// Drain remembers, for the metrics, when the changes were caused. Only the loop
// calls it.
func (r relay) Drain() watch.Dirty {
	d := r.Source.Drain()
	if len(r.monitor.triggers) < maxTriggers {
		r.monitor.triggers = append(r.monitor.triggers, d.Triggers...)
	}
	return d
}

// programmed tells the metrics that all changes so far are in the kernel.
func (m *monitor) programmed(now time.Time) {
	for _, t := range m.triggers {
		family := health.IPv4
		if t.IPv6 {
			family = health.IPv6
		}
		m.NetworkProgramming(family, now.Sub(t.At))
	}
	m.triggers = nil
}
