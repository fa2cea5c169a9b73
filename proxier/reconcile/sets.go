package reconcile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"kube-ipvs-proxy/ipsetutil"
)

// Growth is a set that was made anew because it was too small.
type Growth struct {
	Set string
	// From and To are its sizes before and now, Members what it is to hold.
	From, To uint32
	Members  int
}

// wantSet is the set as it is made.
func (r *Reconciler) wantSet(s ipsetutil.Set) ipsetutil.Set {
	if s.MaxElem > 0 && r.config.SetSize > 0 {
		s.MaxElem = r.config.SetSize
	}
	return s
}

// SetSizes are the most members that each of our hash sets can hold now.
func (r *Reconciler) SetSizes() map[string]uint32 { return r.seen.sizes }

// readSets makes our sets that are missing, and those anew that are other than ours,
// and lists those whose number of members is another than in the picture, and all or
// those named. It reports whether the headers were read.
func (r *Reconciler) readSets(ctx context.Context, report *Report, all bool, named map[string]bool) bool {
	headers, err := r.doors.Sets.Headers(ctx)
	report.count("set", "list", err)
	if err != nil {
		return false
	}
	for _, s := range ipsetutil.All() {
		s = r.wantSet(s)
		h, exists := headers[s.Name]
		if !exists {
			r.createSet(ctx, report, s)
			continue
		}
		if !h.Serves(s) {
			r.mendSet(ctx, report, h, s)
			continue
		}
		r.seen.setSize(h.Set)
		outside, doubted := named[s.Name]
		resized := int(h.Entries) != len(r.seen.members[s.Name])
		if all || doubted || resized {
			r.readSet(ctx, report, s.Name, all || outside || !doubted)
		}
	}
	if _, left := headers[ipsetutil.Spare]; left {
		report.count("set", "delete", r.doors.Sets.Destroy(ctx, ipsetutil.Spare))
	}
	return true
}

// createSet makes a set that is missing. Nothing is in it, whatever the picture says,
// and rules that named it are gone.
func (r *Reconciler) createSet(ctx context.Context, report *Report, s ipsetutil.Set) {
	if len(r.seen.members[s.Name]) > 0 {
		r.compareSet(s.Name, nil, true)
	}
	err := r.doors.Sets.Create(ctx, s)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	report.count("set", "create", err)
	if err != nil {
		r.doubts.set(s.Name, true)
		return
	}
	r.seen.setSize(s)
	if r.known {
		report.repaired("set", s.Name)
		r.rules.wanted = true
	}
}

// mendSet makes a set that has our name and is other than ours into ours: too small,
// without marks, or with a timeout that takes entries away. What can be swapped keeps
// its members and its rules. Of another type or family, nothing in it is of use: it is
// destroyed, unless rules use it, which then are not ours.
func (r *Reconciler) mendSet(ctx context.Context, report *Report, h ipsetutil.Header, s ipsetutil.Set) {
	if h.Swappable(s) {
		r.readSet(ctx, report, s.Name, true)
		if _, doubted := r.doubts.sets[s.Name]; doubted {
			return
		}
		err := r.replaceSet(ctx, s.Fits(len(r.seen.members[s.Name])))
		report.count("set", "replace", err)
		if err != nil {
			r.doubts.set(s.Name, true)
		} else if r.known {
			report.repaired("set", s.Name)
		}
		return
	}
	err := r.doors.Sets.Destroy(ctx, s.Name)
	if errors.Is(err, ipsetutil.ErrBusy) {
		err = fmt.Errorf("%w, and it is a %s %s where a %s %s is needed: delete that rule or the set",
			err, h.Set.Type, h.Set.Family, s.Type, s.Family)
	}
	report.count("set", "delete", err)
	if err != nil {
		r.doubts.set(s.Name, true)
		return
	}
	r.createSet(ctx, report, s)
}

// replaceSet puts a set of other parameters, with the members that the picture has, in
// the place of one of ours. An entry that carries what is never written here comes as
// it is wanted, or not at all.
func (r *Reconciler) replaceSet(ctx context.Context, s ipsetutil.Set) error {
	members := make(map[ipsetutil.Entry]uint32, len(r.seen.members[s.Name]))
	var strange []ipsetutil.Member
	for e, mark := range r.seen.members[s.Name] {
		if m := (ipsetutil.Member{Set: s.Name, Entry: e}); s.Check(ipsetutil.Change{Member: m, Mark: mark}) != nil {
			strange = append(strange, m)
			continue
		}
		members[e] = mark
	}
	for _, m := range strange {
		if mark, wanted := r.wantMember(m); wanted {
			members[m.Entry] = mark
		}
	}
	if err := ipsetutil.Replace(ctx, r.doors.Sets, s, members); err != nil {
		return err
	}
	for _, m := range strange {
		r.seen.dropMember(m)
		if mark, kept := members[m.Entry]; kept {
			r.seen.putMember(m, mark)
		}
	}
	r.seen.setSize(s)
	return nil
}

// grow makes sets bigger that the additions, which are sorted by set, would fill. One
// that cannot grow now takes what it can hold.
func (r *Reconciler) grow(ctx context.Context, report *Report, additions []ipsetutil.Change) {
	for len(additions) > 0 {
		name, n, more := additions[0].Member.Set, 0, 0
		for ; n < len(additions) && additions[n].Member.Set == name; n++ {
			if !isMember(&r.seen, additions[n].Member) {
				more++
			}
		}
		additions = additions[n:]
		if r.seen.members[name] == nil {
			r.seen.members[name] = make(map[ipsetutil.Entry]uint32, more)
		}
		set, known := ipsetutil.ByName(name)
		from := r.seen.sizes[name]
		if !known || from == 0 {
			continue
		}
		set.MaxElem = from
		members := len(r.seen.members[name]) + more
		bigger := set.Fits(members)
		if bigger == set {
			continue
		}
		err := r.replaceSet(ctx, bigger)
		report.count("set", "grow", err)
		if err == nil {
			report.Grown = append(report.Grown, Growth{Set: name, From: from, To: bigger.MaxElem, Members: members})
		}
	}
}

func (r *Reconciler) readSet(ctx context.Context, report *Report, name string, outside bool) {
	entries, err := r.doors.Sets.Members(ctx, name)
	report.count("set", "list", err)
	if err != nil {
		r.doubts.set(name, outside)
		return
	}
	r.compareSet(name, entries, outside)
}
