package main

import (
	"sync"
	"time"

	"kube-ipvs-proxy/proxier/health"
	"kube-ipvs-proxy/proxier/watch"
)

// maxTriggers bounds what is remembered of changes that do not reach the kernel.
const maxTriggers = 10_000

// heard is what was last known of the source.
type heard struct {
	mu                       sync.Mutex
	seen                     time.Time
	services, endpointSlices uint64
}

// listen tells the metrics what the source has heard; changed: it has news. The
// API server counts as heard when both Services and EndpointSlices are. Its bookmarks
// wake nobody: whoever asks for the metrics has them heard first.
func (m *monitor) listen(changed bool) {
	h := &m.heard
	h.mu.Lock()
	defer h.mu.Unlock()
	m.ManifestProblems(len(m.source.problems()))
	if m.source.states == nil {
		if changed {
			m.SourceHeard()
		}
		return
	}
	var now struct {
		seen                     time.Time
		services, endpointSlices uint64
	}
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
	h.seen, h.services, h.endpointSlices = now.seen, now.services, now.endpointSlices
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
