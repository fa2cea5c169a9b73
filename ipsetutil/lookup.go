package ipsetutil

// byName is All as a table.
var byName = indexByName(All())

func indexByName(sets []Set) map[string]Set {
	m := make(map[string]Set, len(sets))
	for _, s := range sets {
		m[s.Name] = s
	}
	return m
}

// ByName returns the set of All that has this name.
func ByName(name string) (Set, bool) {
	s, ok := byName[name]
	return s, ok
}
