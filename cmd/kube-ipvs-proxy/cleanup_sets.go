package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"kube-ipvs-proxy/ipsetutil"
)

// resized is a set that has another size than kube-proxy's, and its members.
type resized struct {
	set     ipsetutil.Set
	members map[ipsetutil.Entry]uint32
}

// resizeSets gives sets of kube-proxy's names its size again, without which it does not
// start. One with more entries than that keeps those that fit.
func (c *cleaner) resizeSets() step {
	s := step{verb: "make anew with kube-proxy's size", kind: "sets of kube-proxy's size"}
	var ours []resized
	for _, r := range c.resized {
		if strings.HasPrefix(r.set.Name, ownSetPrefix) {
			continue // it goes
		}
		ours = append(ours, r)
		s.objects = append(s.objects, "set "+r.set.Name)
		if more := len(r.members) - int(r.set.MaxElem); more > 0 {
			s.notes = append(s.notes, fmt.Sprintf("set %s loses %d of its entries: kube-proxy's has room for %d", r.set.Name, more, r.set.MaxElem))
		}
	}
	s.do = func(ctx context.Context) error {
		for _, r := range ours {
			if err := ipsetutil.Replace(ctx, c.sets, r.set, r.fitting()); err != nil {
				return err
			}
		}
		return nil
	}
	return s
}

// fitting are the members that the set has room for, the first ones in order.
func (r resized) fitting() map[ipsetutil.Entry]uint32 {
	room := int(r.set.MaxElem)
	if len(r.members) <= room {
		return r.members
	}
	fit := make(map[ipsetutil.Entry]uint32, room)
	for _, e := range slices.SortedFunc(maps.Keys(r.members), ipsetutil.Entry.Compare)[:room] {
		fit[e] = r.members[e]
	}
	return fit
}
