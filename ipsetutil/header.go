package ipsetutil

// Header is what the kernel says of a set without listing it.
type Header struct {
	// Set is as it was created; of a foreign set Type may be any text.
	Set      Set
	HashSize uint32 // now; zero for bitmaps, and where nobody knows
	// Entries is the number of members; zero where the kernel is older than 4.9.
	Entries    uint32
	References uint32 // rules and sets that refer to it
	// Strange: it has what is never made here, such as a timeout, counters, comments,
	// a netmask, or ports other than 0-65535.
	Strange bool
}

// Serves tells whether the set can stand for s as it is: it is the same, or a bigger
// one that is the same otherwise.
func (h Header) Serves(s Set) bool {
	return h.Swappable(s) && h.Set.Marks == s.Marks && h.Set.MaxElem >= s.MaxElem && !h.Strange
}

// Swappable tells whether the set can be swapped with one made as s: type and family
// are the same.
func (h Header) Swappable(s Set) bool {
	return h.Set.Type == s.Type && h.Set.Family == s.Family
}
