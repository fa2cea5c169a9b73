// Package fake is an in-memory double of the kernel's ipsets. It passes the same
// suite as ipsetutil/kernel (package ipsetutil/conformance), counts what it is
// asked for and what of that was needless, and fails on demand.
package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"kube-ipvs-proxy/ipsetutil"
)

// Fake holds sets as one network namespace does. Its methods may be called from
// several goroutines. Make one with New.
type Fake struct {
	mu     sync.Mutex
	sets   map[string]*set
	counts Counts
	fault  Fault
}

var _ ipsetutil.Sets = (*Fake)(nil)

type set struct {
	ipsetutil.Set
	marks map[ipsetutil.Entry]uint32
	inUse bool
}

// New returns a Fake without any set.
func New() *Fake { return &Fake{sets: map[string]*set{}} }

// Create makes a set, see ipsetutil.Sets.
func (f *Fake) Create(ctx context.Context, s ipsetutil.Set) error {
	return f.request(ctx, "create", s.Name, func() error {
		if err := s.Validate(); err != nil {
			return err
		}
		old, ok := f.sets[s.Name]
		if !ok {
			f.sets[s.Name] = &set{Set: s, marks: map[ipsetutil.Entry]uint32{}}
			return nil
		}
		if old.Set != s {
			return ipsetutil.ErrMismatch
		}
		f.counts.Needless++
		return nil
	})
}

// Names lists all sets, sorted.
func (f *Fake) Names(ctx context.Context) (names []string, err error) {
	err = f.request(ctx, "list", "names", func() error {
		names = slices.Sorted(maps.Keys(f.sets))
		return nil
	})
	return names, err
}

// Headers lists all sets without their members. Hash sizes are not told.
func (f *Fake) Headers(ctx context.Context) (headers map[string]ipsetutil.Header, err error) {
	err = f.request(ctx, "list", "headers", func() error {
		headers = make(map[string]ipsetutil.Header, len(f.sets))
		for name, s := range f.sets {
			headers[name] = s.header()
		}
		return nil
	})
	return headers, err
}

// Header is Headers for one set.
func (f *Fake) Header(ctx context.Context, name string) (h ipsetutil.Header, err error) {
	err = f.request(ctx, "list", name, func() error {
		s, ok := f.sets[name]
		if !ok {
			return ipsetutil.ErrNoSet
		}
		h = s.header()
		return nil
	})
	return h, err
}

func (s *set) header() ipsetutil.Header {
	h := ipsetutil.Header{Set: s.Set, Entries: uint32(len(s.marks))}
	if s.inUse {
		h.References = 1
	}
	return h
}

// Holds tells whether all of these members are there.
func (f *Fake) Holds(ctx context.Context, members []ipsetutil.Member) (all bool, err error) {
	err = f.request(ctx, "test", "members", func() error {
		all = true
		for _, m := range members {
			s, ok := f.sets[m.Set]
			if ok {
				_, ok = s.marks[m.Entry]
			}
			all = all && ok
		}
		return nil
	})
	return all && err == nil, err
}

// Swap exchanges two sets; that rules use one stays with the name.
func (f *Fake) Swap(ctx context.Context, a, b string) error {
	return f.request(ctx, "swap", a+" "+b, func() error {
		one, ok := f.sets[a]
		other, too := f.sets[b]
		switch {
		case !ok || !too:
			return ipsetutil.ErrNoSet
		case one.Type != other.Type || one.Family != other.Family:
			return ipsetutil.ErrMismatch
		}
		one.Name, other.Name = b, a
		one.inUse, other.inUse = other.inUse, one.inUse
		f.sets[a], f.sets[b] = other, one
		return nil
	})
}

// Members lists one set, see ipsetutil.Sets. The map is the caller's own.
func (f *Fake) Members(ctx context.Context, name string) (members map[ipsetutil.Entry]uint32, err error) {
	err = f.request(ctx, "list", name, func() error {
		s, ok := f.sets[name]
		if !ok {
			return ipsetutil.ErrNoSet
		}
		members = maps.Clone(s.marks)
		return nil
	})
	return members, err
}

// Destroy removes a set, see ipsetutil.Sets.
func (f *Fake) Destroy(ctx context.Context, name string) error {
	return f.request(ctx, "destroy", name, func() error {
		s, ok := f.sets[name]
		switch {
		case !ok:
			f.counts.Needless++
			return nil
		case s.inUse:
			return ipsetutil.ErrBusy
		}
		delete(f.sets, name)
		return nil
	})
}

// Do makes the changes in order, see ipsetutil.Sets.
func (f *Fake) Do(ctx context.Context, changes []ipsetutil.Change) []error {
	var errs []error
	for i, c := range changes {
		op, _, _ := strings.Cut(c.String(), " ")
		err := f.request(ctx, op, c.Member.String(), func() error { return f.change(c) })
		if err == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, len(changes))
		}
		errs[i] = err
	}
	return errs
}

// change makes one change under the lock.
func (f *Fake) change(c ipsetutil.Change) error {
	s, ok := f.sets[c.Member.Set]
	if !ok {
		return ipsetutil.ErrNoSet
	}
	if err := s.Check(c); err != nil {
		return err
	}
	e := c.Member.Entry
	mark, present := s.marks[e]
	if c.Delete {
		if !present {
			f.counts.Needless++
			return ipsetutil.ErrNoEntry
		}
		delete(s.marks, e)
		return nil
	}
	if present && mark == c.Mark {
		f.counts.Needless++
		return nil
	}
	if !present && s.MaxElem != 0 && len(s.marks) >= int(s.MaxElem) {
		return ipsetutil.ErrFull
	}
	s.marks[e] = c.Mark
	return nil
}

// Refer marks a set as used by a rule, or no longer used: Destroy gives ErrBusy.
// It panics when there is no such set.
func (f *Fake) Refer(name string, inUse bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.sets[name]
	if !ok {
		panic(fmt.Sprintf("no set %q", name))
	}
	s.inUse = inUse
}

// Dump returns a line "set NAME ENTRY" or "set NAME ENTRY mark 0x20001" for every
// member, sorted. Marks show in sets that have marks.
func (f *Fake) Dump() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var lines []string
	for name, s := range f.sets {
		for e, mark := range s.marks {
			line := fmt.Sprintf("set %s %s", name, e)
			if s.Marks {
				line += fmt.Sprintf(" mark %#x", mark)
			}
			lines = append(lines, line+"\n")
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}
