package ledger

import (
	"maps"
	"net/netip"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// Touched are keys whose desired value changed.
type Touched struct {
	Servers         map[ipvsutil.Key]struct{}
	Members         map[ipsetutil.Member]struct{}
	Bound, Captured map[netip.Addr]struct{}
}

func newTouched() Touched {
	return Touched{
		Servers: map[ipvsutil.Key]struct{}{}, Members: map[ipsetutil.Member]struct{}{},
		Bound: map[netip.Addr]struct{}{}, Captured: map[netip.Addr]struct{}{},
	}
}

// Merge adds the keys of o.
func (t *Touched) Merge(o Touched) {
	t.Servers = merged(t.Servers, o.Servers)
	t.Members = merged(t.Members, o.Members)
	t.Bound = merged(t.Bound, o.Bound)
	t.Captured = merged(t.Captured, o.Captured)
}

// Len counts the keys.
func (t Touched) Len() int {
	return len(t.Servers) + len(t.Members) + len(t.Bound) + len(t.Captured)
}

func merged[K comparable](into, from map[K]struct{}) map[K]struct{} {
	switch {
	case len(from) == 0:
		return into
	case len(into) == 0:
		return maps.Clone(from) // at the start it is all that there is
	}
	maps.Copy(into, from)
	return into
}

// tracker remembers the value that each key had before a change, so that only
// keys whose value is another one afterwards count as touched.
type tracker struct {
	ledger          *Ledger
	servers         map[ipvsutil.Key]*Server // nil: was not there
	members         map[ipsetutil.Member]holding
	bound, captured map[netip.Addr]bool
}

func newTracker(l *Ledger) *tracker {
	return &tracker{
		ledger:  l,
		servers: map[ipvsutil.Key]*Server{}, members: map[ipsetutil.Member]holding{},
		bound: map[netip.Addr]bool{}, captured: map[netip.Addr]bool{},
	}
}

func (t *tracker) server(key ipvsutil.Key) {
	if _, ok := t.servers[key]; ok {
		return
	}
	t.servers[key] = nil
	if s, ok := t.ledger.servers[key]; ok {
		t.servers[key] = &s
	}
}

func (t *tracker) member(m ipsetutil.Member) { note(t.members, m, t.ledger.members[m]) }

// note keeps the first value of a key.
func note[K comparable, V any](values map[K]V, key K, value V) {
	if _, ok := values[key]; !ok {
		values[key] = value
	}
}

func (t *tracker) touched() Touched {
	touched := newTouched()
	for key, was := range t.servers {
		now, ok := t.ledger.servers[key]
		if ok != (was != nil) || ok && !now.equal(*was) {
			touched.Servers[key] = struct{}{}
		}
	}
	for m, was := range t.members {
		now := t.ledger.members[m]
		if (now.holders > 0) != (was.holders > 0) || now.mark != was.mark {
			touched.Members[m] = struct{}{}
		}
	}
	changed(touched.Bound, t.bound, t.ledger.bound)
	changed(touched.Captured, t.captured, t.ledger.captured)
	return touched
}

func changed(into map[netip.Addr]struct{}, was map[netip.Addr]bool, now map[netip.Addr]int) {
	for a, held := range was {
		if held != (now[a] > 0) {
			into[a] = struct{}{}
		}
	}
}
