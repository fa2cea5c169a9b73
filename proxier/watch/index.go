package watch

import (
	"maps"
	"slices"
	"strings"

	"kube-ipvs-proxy/proxier/plan"
)

// holder is one place in which an object stands.
type holder struct {
	file   string
	object *object
}

// entry is what is known of one Service.
type entry struct {
	service *plan.Service
	slices  []*object // by name
}

// index holds the objects of all files and says what a change of files means for
// Services. It reads no file and has no lock.
type index struct {
	nodeName string
	// holders are all places of an object, by file name and then by place. The last
	// one counts.
	holders map[objectKey][]holder
	// held are the objects by file.
	held    map[string][]*object
	entries map[plan.ServiceName]*entry
	node    *NodeInfo // nil until the Node was read

	dirty map[plan.ServiceName]bool
	all   bool
	// unread: nobody asks for changes before all is asked for, so that none is noted.
	unread bool

	// problems are the present ones by file, "" for the folder; shadows those of
	// objects that stand in several places.
	problems map[string][]Problem
	shadows  map[objectKey][]Problem
	// fresh are the problems that are new since they were last taken.
	fresh []Problem
}

func newIndex(nodeName string) *index {
	return &index{
		nodeName: nodeName,
		holders:  make(map[objectKey][]holder),
		held:     make(map[string][]*object),
		entries:  make(map[plan.ServiceName]*entry),
		dirty:    make(map[plan.ServiceName]bool),
		problems: make(map[string][]Problem),
		shadows:  make(map[objectKey][]Problem),
	}
}

// replace takes in the changed files; nil is a file that is gone. All files of one
// update belong in one call: then an object that moved from one file to another
// has not changed.
func (x *index) replace(files map[string]*file) {
	before := make(map[objectKey]*object)
	names := slices.Sorted(maps.Keys(files))
	for _, name := range names {
		x.takeOut(name, before)
	}
	for _, name := range names {
		f := files[name]
		if f == nil {
			x.report(name, nil)
			continue
		}
		x.held[name] = f.objects
		for _, o := range f.objects {
			x.putIn(name, o, before)
		}
		x.report(name, f.problems)
	}
	for key, old := range before {
		x.shadow(key)
		if now := x.winner(key); now != old {
			x.change(key, old, now)
		}
	}
}

// expect makes room in an empty index for so many Services.
func (x *index) expect(services int) {
	if len(x.entries) == 0 {
		x.entries = make(map[plan.ServiceName]*entry, services)
	}
}

// winner returns the object that counts among those of one key, nil for none.
func (x *index) winner(key objectKey) *object {
	list := x.holders[key]
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1].object
}

// takeOut removes what a file held, and notes what counted before.
func (x *index) takeOut(name string, before map[objectKey]*object) {
	for _, o := range x.held[name] {
		if _, noted := before[o.key]; !noted {
			before[o.key] = x.winner(o.key)
		}
	}
	for _, o := range x.held[name] {
		rest := slices.DeleteFunc(x.holders[o.key], func(h holder) bool { return h.file == name })
		if len(rest) == 0 {
			delete(x.holders, o.key)
		} else {
			x.holders[o.key] = rest
		}
	}
	delete(x.held, name)
}

// putIn adds an object of a file behind those that stand before it.
func (x *index) putIn(name string, o *object, before map[objectKey]*object) {
	if _, noted := before[o.key]; !noted {
		before[o.key] = x.winner(o.key)
	}
	list := x.holders[o.key]
	at := len(list)
	for at > 0 && list[at-1].file > name {
		at--
	}
	x.holders[o.key] = slices.Insert(list, at, holder{name, o})
}

// change takes in that another object counts for key; old or now may be nil.
// Services become dirty only when it means something else.
func (x *index) change(key objectKey, old, now *object) {
	same := key.same(old, now)
	switch key.kind {
	case kindService:
		name := plan.ServiceName{Namespace: key.namespace, Name: key.name}
		e := x.entry(name)
		e.service = nil
		if now != nil {
			e.service = now.service
		}
		x.touch(name, same)
	case kindSlice:
		if old.owned() {
			e := x.entry(old.owner)
			e.slices = slices.DeleteFunc(e.slices, func(o *object) bool { return o.key == key })
			x.touch(old.owner, same)
		}
		if now.owned() {
			x.entry(now.owner).insert(now)
			x.touch(now.owner, same)
		}
	case kindNode:
		if key.name != x.nodeName {
			return
		}
		x.node = nil
		if now != nil {
			x.node = &now.node
		}
		x.all = x.all || !same
	}
}

// entry returns the entry of a Service and makes it if need be.
func (x *index) entry(name plan.ServiceName) *entry {
	e := x.entries[name]
	if e == nil {
		e = new(entry)
		x.entries[name] = e
	}
	return e
}

// insert adds a slice in the order of names.
func (e *entry) insert(o *object) {
	at, _ := slices.BinarySearchFunc(e.slices, o, func(a, b *object) int { return strings.Compare(a.key.name, b.key.name) })
	e.slices = slices.Insert(e.slices, at, o)
}

// touch marks a Service dirty, unless nothing changed for it, and forgets the entry
// of one of which nothing is left.
func (x *index) touch(name plan.ServiceName, same bool) {
	if !same && !x.unread {
		x.dirty[name] = true
	}
	if e := x.entries[name]; e.service == nil && len(e.slices) == 0 {
		delete(x.entries, name)
	}
}

// service returns the present state of a Service.
func (x *index) service(name plan.ServiceName) (*plan.Service, []plan.Endpoint) {
	e := x.entries[name]
	if e == nil {
		return nil, nil
	}
	if len(e.slices) == 1 {
		return e.service, e.slices[0].endpoints
	}
	var all []plan.Endpoint
	for _, s := range e.slices {
		all = append(all, s.endpoints...)
	}
	return e.service, merge(all)
}

// shadow reports the places of an object that do not count.
func (x *index) shadow(key objectKey) {
	list := x.holders[key]
	var now []Problem
	for i := range len(list) - 1 {
		last := list[len(list)-1].file
		reason := "stands in " + last + " too, and that one is used"
		if list[i].file == last {
			reason = "stands in this file more than once, and the last one is used"
		}
		now = append(now, Problem{File: list[i].file, Object: key.String(), Reason: reason})
	}
	x.note(x.shadows[key], now)
	if now == nil {
		delete(x.shadows, key)
	} else {
		x.shadows[key] = now
	}
}

// report sets the problems of a file, or of the folder when file is empty.
func (x *index) report(file string, now []Problem) {
	x.note(x.problems[file], now)
	if len(now) == 0 {
		delete(x.problems, file)
	} else {
		x.problems[file] = now
	}
}

// note remembers which of now are not among old.
func (x *index) note(old, now []Problem) {
	if len(now) == 0 {
		return
	}
	known := make(map[Problem]bool, len(old))
	for _, p := range old {
		known[p] = true
	}
	for _, p := range now {
		if !known[p] {
			known[p] = true
			x.fresh = append(x.fresh, p)
		}
	}
}

// all problems, sorted, each once.
func (x *index) problemList() []Problem {
	var out []Problem
	for _, list := range x.problems {
		out = append(out, list...)
	}
	for _, list := range x.shadows {
		out = append(out, list...)
	}
	slices.SortFunc(out, Problem.compare)
	return slices.Compact(out)
}
