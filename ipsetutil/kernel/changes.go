package kernel

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// maxEntries bounds the entries of one message. The largest entry, IPv6 with a
// source and a mark, has 104 bytes, and an attribute ends at 65,535.
const maxEntries = 500

// Do makes changes, see ipsetutil.Sets. Neighbours of the same set and kind share
// a message, and messages of different sets are sent together, so changes that are
// sorted by set and kind are the fastest.
//
// Sets of ipsetutil.All are known by name; the parameters of any other set are
// asked of the kernel, once in each call.
func (c *Conn) Do(ctx context.Context, changes []ipsetutil.Change) []error {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := work{changes: changes}
	w.check(func(name string) (ipsetutil.Set, error) {
		if s, ok := ipsetutil.ByName(name); ok {
			return s, nil
		}
		h, err := c.Header(ctx, name)
		return h.Set, err
	})
	queue, now := w.split(), []span(nil)
	for limit := maxEntries; len(queue) > 0; {
		now, queue = batch(now[:0], queue, limit)
		var again []span
		for i, err := range c.socket.Execute(ctx, c.encode(&w, now)) {
			if err == nil {
				continue
			}
			if rest := w.refused(now[i], err); rest.from < rest.to {
				again = append(again, rest)
			}
		}
		// What follows a failure is sent again, so where many fail less is sent at once.
		limit = min(2*limit, maxEntries)
		if len(again) > 0 {
			queue = append(again, queue...)
			limit = max(1, limit/8)
		}
	}
	return w.errs
}

// batch moves messages from the head of the queue to now, which can be sent
// together: those up to the second one for the same set. When an entry fails, those
// after it in its message have not been done, and must be before anything later of
// that set. A span of more than limit changes is cut.
func batch(now, queue []span, limit int) (batch, rest []span) {
	seen := make(map[string]bool, 16)
	for i, s := range queue {
		if seen[s.set.Name] {
			return now, queue[i:]
		}
		seen[s.set.Name] = true
		if s.to-s.from > limit {
			queue[i].from += limit
			s.to = queue[i].from
			return append(now, s), queue[i:]
		}
		now = append(now, s)
	}
	return now, nil
}

// encode makes one request of each span.
func (c *Conn) encode(w *work, spans []span) []netlink.Request {
	requests := make([]netlink.Request, len(spans))
	for i, s := range spans {
		if i == len(c.buffers) {
			c.buffers = append(c.buffers, nil)
		}
		c.buffers[i] = w.append(c.buffers[i][:0], s)
		requests[i] = netlink.Request{Type: cmdAdd, Body: c.buffers[i]}
		if s.delete {
			// With NLM_F_EXCL deleting a missing entry is an error; without it adding
			// a present one is none, and replaces its mark.
			requests[i].Type, requests[i].Flags = cmdDelete, unix.NLM_F_EXCL
		}
	}
	return requests
}

// work is one call of Do: the changes and what became of them.
type work struct {
	changes []ipsetutil.Change
	sets    map[string]found
	errs    []error // nil, or one a change
}

// found is a set that changes name, or why it is unknown.
type found struct {
	set ipsetutil.Set
	err error
}

// span is the changes from..to-1, all of one set and kind, without those that
// failed already; at most maxEntries of them are one message.
type span struct {
	set      ipsetutil.Set
	delete   bool
	from, to int
}

func (w *work) failed(i int) bool { return w.errs != nil && w.errs[i] != nil }

func (w *work) set(i int, err error) {
	if w.errs == nil {
		w.errs = make([]error, len(w.changes))
	}
	w.errs[i] = err
}

// check finds the sets and sorts out the changes that they can't take.
func (w *work) check(lookup func(name string) (ipsetutil.Set, error)) {
	w.sets = make(map[string]found)
	for i, c := range w.changes {
		f, ok := w.sets[c.Member.Set]
		if !ok {
			f.set, f.err = lookup(c.Member.Set)
			w.sets[c.Member.Set] = f
		}
		err := f.err
		if err == nil {
			err = f.set.Check(c)
		}
		if err != nil {
			w.set(i, w.name(i, f.set.Type, err))
		}
	}
}

// name makes the error of one change; the kinds of a set's error stay.
func (w *work) name(i int, typ ipsetutil.Type, err error) error {
	op := opAdd
	if w.changes[i].Delete {
		op = opDelete
	}
	var of *ipsetutil.OpError
	if errors.As(err, &of) {
		err = of.Err
	}
	return fail(op, w.changes[i].Member.String(), typ, err)
}

// split makes spans of the changes that have not failed, in order.
func (w *work) split() []span {
	var spans []span
	for i := 0; i < len(w.changes); {
		if w.failed(i) {
			i++
			continue
		}
		first := w.changes[i]
		s := span{set: w.sets[first.Member.Set].set, delete: first.Delete, from: i}
		for ; i < len(w.changes); i++ {
			if w.failed(i) {
				continue
			}
			if c := w.changes[i]; c.Delete != first.Delete || c.Member.Set != first.Member.Set {
				break
			}
		}
		s.to = i
		spans = append(spans, s)
	}
	return spans
}

// append encodes a span. The line of an entry is its index in the changes plus one,
// that of the message zero; when an entry fails the kernel puts its line there.
func (w *work) append(a netlink.Attributes, s span) netlink.Attributes {
	a = appendCommand(a, s.set.Name)
	a.U32(attrLine, 0)
	adt := a.Nest(attrADT)
	for i := s.from; i < s.to; i++ {
		if !w.failed(i) {
			a = appendEntry(a, s.set, w.changes[i], uint32(i+1))
		}
	}
	a.End(adt)
	return a
}

// refused notes the error of a span. When it was one entry's, those before it have
// been done, and those after it are returned: they are yet to be. Otherwise the
// error is that of all.
func (w *work) refused(s span, err error) (rest span) {
	var e *netlink.Error
	if errors.As(err, &e) {
		if i := int(failedLine(e.Echo)) - 1; i >= s.from && i < s.to {
			w.set(i, w.name(i, s.set.Type, err))
			s.from = i + 1
			for s.from < s.to && w.failed(s.from) {
				s.from++
			}
			return s
		}
	}
	for i := s.from; i < s.to; i++ {
		if !w.failed(i) {
			w.set(i, w.name(i, s.set.Type, err))
		}
	}
	return span{}
}
