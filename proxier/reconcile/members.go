package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// frontends are keys of address servers, and ports of NodePorts, whose entries have
// no address.
type frontends struct {
	keys  map[ipvsutil.Key]bool
	ports map[uint16]bool
}

func newFrontends() frontends {
	return frontends{keys: map[ipvsutil.Key]bool{}, ports: map[uint16]bool{}}
}

func (f frontends) hasKey(key ipvsutil.Key) bool {
	return f.keys[key] || f.ports[key.Addr.Port()]
}

func (f frontends) hasMember(m ipsetutil.Member) bool {
	if !m.Entry.Addr.IsValid() {
		return f.ports[m.Entry.Port]
	}
	return f.keys[memberKey(m)]
}

func (f frontends) addMember(m ipsetutil.Member) {
	if !m.Entry.Addr.IsValid() {
		f.ports[m.Entry.Port] = true
		return
	}
	f.keys[memberKey(m)] = true
}

func (f frontends) addKey(key ipvsutil.Key) {
	f.keys[key] = true
	f.ports[key.Addr.Port()] = true
}

func memberKey(m ipsetutil.Member) ipvsutil.Key {
	return ipvsutil.Key{
		Addr:     netip.AddrPortFrom(m.Entry.Addr, m.Entry.Port),
		Protocol: ipvsutil.Protocol(m.Entry.Protocol),
	}
}

// addMembers adds what is desired and missing, or has another mark. It returns the
// frontends with an entry that could not be added: their servers must not be
// created in this round, or traffic would pass unmasqueraded or unfiltered.
func (r *Reconciler) addMembers(ctx context.Context, report *Report, touched map[ipsetutil.Member]struct{}) frontends {
	held := newFrontends()
	var changes []ipsetutil.Change
	for m := range touched {
		mark, wanted := r.desired.Member(m)
		have, there := r.observed.members[m]
		if wanted && (!there || have != mark) {
			changes = append(changes, ipsetutil.Change{Member: m, Mark: mark})
		}
	}
	for _, m := range r.change(ctx, report, changes) {
		held.addMember(m)
	}
	return held
}

// deleteMembers deletes what is there and not desired, but keeps the entries of
// servers that could not be deleted: by them the servers are known as ours.
func (r *Reconciler) deleteMembers(ctx context.Context, report *Report, touched map[ipsetutil.Member]struct{}, stay map[ipvsutil.Key]bool) {
	kept := newFrontends()
	for key := range stay {
		kept.addKey(key)
	}
	var changes []ipsetutil.Change
	for m := range touched {
		_, wanted := r.desired.Member(m)
		_, there := r.observed.members[m]
		switch {
		case wanted || !there:
		case kept.hasMember(m):
			r.failed.Members = set(r.failed.Members, m)
		default:
			changes = append(changes, ipsetutil.Change{Delete: true, Member: m})
		}
	}
	r.change(ctx, report, changes)
}

// change does the changes, set by set so that the door can send them together, and
// returns the members that failed.
func (r *Reconciler) change(ctx context.Context, report *Report, changes []ipsetutil.Change) []ipsetutil.Member {
	if len(changes) == 0 {
		return nil
	}
	slices.SortFunc(changes, func(a, b ipsetutil.Change) int {
		if c := strings.Compare(a.Member.Set, b.Member.Set); c != 0 {
			return c
		}
		return compareEntries(a.Member.Entry, b.Member.Entry)
	})
	report.Ops += len(changes)
	errs := r.doors.Sets.Do(ctx, changes)
	var failed []ipsetutil.Member
	for i, c := range changes {
		var err error
		if errs != nil {
			err = errs[i]
		}
		if c.Delete && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		switch {
		case err != nil:
			report.fail(err)
			r.fail(err)
			r.failed.Members = set(r.failed.Members, c.Member)
			failed = append(failed, c.Member)
		case c.Delete:
			delete(r.observed.members, c.Member)
		default:
			r.observed.members[c.Member] = c.Mark
		}
	}
	return failed
}

// fail casts doubt on the picture when an error says that it was wrong, or when the
// outcome is unknown.
func (r *Reconciler) fail(err error) {
	if errors.Is(err, ipvsutil.ErrUnknownScheduler) {
		return
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) || errors.Is(err, ipvsutil.ErrUnknownOutcome) {
		r.Doubt()
	}
}

// createSets makes those of our sets that are missing.
func (r *Reconciler) createSets(ctx context.Context, names []string) error {
	have := make(map[string]bool, len(names))
	for _, n := range names {
		have[n] = true
	}
	var errs []error
	for _, s := range ipsetutil.All() {
		if have[s.Name] {
			continue
		}
		if err := r.doors.Sets.Create(ctx, s); err != nil && !errors.Is(err, fs.ErrExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func compareEntries(a, b ipsetutil.Entry) int {
	if c := a.Addr.Compare(b.Addr); c != 0 {
		return c
	}
	if c := int(a.Port) - int(b.Port); c != 0 {
		return c
	}
	if c := int(a.Protocol) - int(b.Protocol); c != 0 {
		return c
	}
	if c := a.Source.Addr().Compare(b.Source.Addr()); c != 0 {
		return c
	}
	return a.Source.Bits() - b.Source.Bits()
}

func set[K comparable](keys map[K]struct{}, key K) map[K]struct{} {
	if keys == nil {
		keys = map[K]struct{}{}
	}
	keys[key] = struct{}{}
	return keys
}

// sortedAddrs are the keys in order, so that two runs do the same.
func sortedAddrs(keys map[netip.Addr]struct{}) []netip.Addr {
	return slices.SortedFunc(maps.Keys(keys), netip.Addr.Compare)
}
