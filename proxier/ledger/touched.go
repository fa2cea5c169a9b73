package ledger

import (
	"maps"
	"net/netip"
	"slices"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// Touched are keys whose desired value changed.
type Touched struct {
	Servers         map[ipvsutil.Key]struct{}
	Members         map[ipsetutil.Member]struct{}
	Bound, Captured map[netip.Addr]struct{}
}

// newTouched has a map of each kind, as long as none is nil.
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
// keys whose value is another one afterwards count as touched. A ledger has one, which
// each change uses again.
type tracker struct {
	ledger          *Ledger
	servers         notes[ipvsutil.Key, *Server] // nil: was not there
	members         notes[ipsetutil.Member, holding]
	bound, captured notes[netip.Addr, bool]
}

// start forgets the change before; off: of the one that comes nothing is remembered.
func (t *tracker) start(off bool) *tracker {
	t.servers.clear(off)
	t.members.clear(off)
	t.bound.clear(off)
	t.captured.clear(off)
	return t
}

func (t *tracker) server(key ipvsutil.Key) {
	if t.servers.off || t.servers.has(key) {
		return
	}
	var was *Server
	if s, ok := t.ledger.servers[key]; ok {
		was = &s
	}
	t.servers.add(key, was)
}

func (t *tracker) member(m ipsetutil.Member) {
	if !t.members.off && !t.members.has(m) {
		t.members.add(m, t.ledger.members[m])
	}
}

// into adds the keys whose value is another one now.
func (t *tracker) into(touched *Touched) {
	for _, n := range t.servers.list {
		now, ok := t.ledger.servers[n.key]
		if ok != (n.was != nil) || ok && !now.equal(*n.was) {
			put(&touched.Servers, n.key)
		}
	}
	for _, n := range t.members.list {
		now := t.ledger.members[n.key]
		if (now.holders > 0) != (n.was.holders > 0) || now.mark != n.was.mark {
			put(&touched.Members, n.key)
		}
	}
	changed(&touched.Bound, t.bound, t.ledger.bound)
	changed(&touched.Captured, t.captured, t.ledger.captured)
}

func changed(into *map[netip.Addr]struct{}, was notes[netip.Addr, bool], now map[netip.Addr]int) {
	for _, n := range was.list {
		if n.was != (now[n.key] > 0) {
			put(into, n.key)
		}
	}
}

func put[K comparable](into *map[K]struct{}, key K) {
	if *into == nil {
		*into = map[K]struct{}{}
	}
	(*into)[key] = struct{}{}
}

// notes keep the first value of each key. Most changes concern a few keys, which a
// list holds without any memory of its own; a long list has an index.
type notes[K comparable, V any] struct {
	list  []note[K, V]
	index map[K]struct{}
	off   bool // nothing is to be kept
}

type note[K comparable, V any] struct {
	key K
	was V
}

// longList is the length from which on a list has an index.
const longList = 16

// mostKept bounds the list that is kept for the next change.
const mostKept = 1024

func (n *notes[K, V]) clear(off bool) {
	clear(n.list)
	n.list, n.index, n.off = n.list[:0], nil, off
	if cap(n.list) > mostKept {
		n.list = nil
	}
}

func (n *notes[K, V]) has(key K) bool {
	if n.index != nil {
		_, ok := n.index[key]
		return ok
	}
	return slices.ContainsFunc(n.list, func(o note[K, V]) bool { return o.key == key })
}

func (n *notes[K, V]) add(key K, was V) {
	n.list = append(n.list, note[K, V]{key, was})
	switch {
	case n.index != nil:
		n.index[key] = struct{}{}
	case len(n.list) > longList:
		n.index = make(map[K]struct{}, 2*longList)
		for _, o := range n.list {
			n.index[o.key] = struct{}{}
		}
	}
}
