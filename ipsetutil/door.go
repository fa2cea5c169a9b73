package ipsetutil

import "context"

// Change adds or deletes one member. Adding a member that is there with another
// mark replaces the mark; adding an equal one is no error. Deleting one that is
// missing gives ErrNoEntry, which is also fs.ErrNotExist.
type Change struct {
	Delete bool
	Member Member
	Mark   uint32 // of sets with Marks; zero otherwise
}

// String returns "add KUBE-CLUSTER-IP 10.96.0.1,tcp:443".
func (c Change) String() string {
	if c.Delete {
		return "delete " + c.Member.String()
	}
	return "add " + c.Member.String()
}

// Sets is the door to the ipsets of one network namespace. Changes are done in
// order; each is on its own. Do returns nil when all succeeded, else one error (or
// nil) a change, in order. Changes of a set that is missing give ErrNoSet, which is
// also fs.ErrNotExist; a full set gives ErrFull; what the set can't take (Set.Check)
// gives ErrInvalid. The kernel counts a hash that has grown beyond 1024 buckets in
// regions, so it may take somewhat more than maxelem. Every error is an *OpError.
type Sets interface {
	// Create makes a set that is missing; one that is there with the same
	// parameters is left alone (hash size may differ), one with other type,
	// family, maxelem or extensions gives ErrMismatch.
	Create(ctx context.Context, set Set) error
	// Names lists all sets of the namespace, also foreign ones, in one request.
	Names(ctx context.Context) ([]string, error)
	// Headers lists all sets of the namespace by name, also foreign ones, without
	// their members, in one request whose cost does not depend on those.
	Headers(ctx context.Context) (map[string]Header, error)
	// Header is Headers for one set; a missing one gives ErrNoSet. The kernel goes
	// through the set to count its entries.
	Header(ctx context.Context, set string) (Header, error)
	// Holds tells whether all of these members are there, whatever their marks, in one
	// request for all of them whose cost does not depend on how much the sets hold. A
	// missing set holds nothing.
	Holds(ctx context.Context, members []Member) (bool, error)
	Do(ctx context.Context, changes []Change) []error
	// Members lists one set: entry to mark (zero where the set has no marks, and
	// StrangeMark where an entry carries what is never written here).
	Members(ctx context.Context, set string) (map[Entry]uint32, error)
	// Swap exchanges all but the names of two sets at one instant; also of sets that
	// rules use, and the rules stay with the name. A missing one gives ErrNoSet, sets
	// of different type or family ErrMismatch, one that is being listed ErrBusy.
	Swap(ctx context.Context, a, b string) error
	// Destroy removes a set; a missing one is no error, one that a rule uses gives ErrBusy.
	Destroy(ctx context.Context, set string) error
}
