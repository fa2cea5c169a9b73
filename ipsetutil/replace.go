package ipsetutil

import (
	"cmp"
	"context"
	"errors"
	"slices"
)

// Spare is the set in which another is made anew before it takes its place. It exists
// for no longer than that takes; one that is left by a process that ended is useless.
const Spare = ownPrefix + "SPARE"

// Fits tells the size that a hash set of this size should have for so many members:
// its own while they are at most nine tenths of it, else the first of its doublings
// for which they are. A bitmap is never too small.
func (s Set) Fits(members int) Set {
	for s.MaxElem > 0 && s.MaxElem < 1<<31 && uint64(members)*10 > uint64(s.MaxElem)*9 {
		s.MaxElem *= 2
	}
	return s
}

// Replace puts a set with the parameters and members given in the place of the one of
// the same name, type and family at one instant: no packet and no rule finds it
// missing or half full. Nothing has changed when it fails. It uses Spare.
func Replace(ctx context.Context, sets Sets, set Set, members map[Entry]uint32) error {
	spare := set
	spare.Name = Spare
	if err := sets.Destroy(ctx, Spare); err != nil {
		return err
	}
	if err := sets.Create(ctx, spare); err != nil {
		return err
	}
	changes := make([]Change, 0, len(members))
	for e, mark := range members {
		changes = append(changes, Change{Member: Member{Set: Spare, Entry: e}, Mark: mark})
	}
	slices.SortFunc(changes, func(a, b Change) int { return a.Member.Entry.Compare(b.Member.Entry) })
	err := errors.Join(sets.Do(ctx, changes)...)
	if err == nil {
		err = sets.Swap(ctx, Spare, set.Name)
	}
	// Of no use any more, whether it failed or not: one that stays is destroyed before
	// the next is made.
	_ = sets.Destroy(ctx, Spare)
	return err
}

// Compare sorts entries by address, port, protocol and third part.
func (e Entry) Compare(o Entry) int {
	if c := e.Addr.Compare(o.Addr); c != 0 {
		return c
	}
	return cmp.Or(
		cmp.Compare(e.Port, o.Port), cmp.Compare(e.Protocol, o.Protocol),
		e.Source.Addr().Compare(o.Source.Addr()), cmp.Compare(e.Source.Bits(), o.Source.Bits()),
	)
}
