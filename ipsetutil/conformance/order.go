package conformance

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	"kube-ipvs-proxy/ipsetutil"
)

// A change that fails stops none of those around it.
func testEachOnItsOwn(t *testing.T, s ipsetutil.Sets) {
	set := hash("S", ipsetutil.HashIPPort, ipsetutil.IPv4)
	create(t, s, set)
	const n = 1300
	var changes []ipsetutil.Change
	want, left := make([]error, n), map[ipsetutil.Entry]uint32{}
	for i := range n {
		changes = append(changes, del("S", port4(i)))
		if i == 0 || i == 1 || i == 499 || i == 500 || i == 700 || i == n-1 {
			want[i] = ipsetutil.ErrNoEntry
			continue
		}
		do(t, s, add("S", port4(i)))
	}
	do(t, s, add("S", port4(n)))
	left[port4(n)] = 0
	wantErrors(t, s, changes, want)
	wantMembers(t, s, "S", left)
}

// Long runs of changes that the set can't take, in the midst of others.
func testManyInvalid(t *testing.T, s ipsetutil.Sets) {
	create(t, s, bitmap("B"))
	var changes []ipsetutil.Change
	var want []error
	left := map[ipsetutil.Entry]uint32{}
	for i := range 3000 {
		c := add("B", ipsetutil.Entry{Port: uint16(i)})
		var err error
		if i/700%2 == 1 || i > 2500 {
			c.Member.Entry.Protocol, err = 6, ipsetutil.ErrInvalid
		} else {
			left[c.Member.Entry] = 0
		}
		changes, want = append(changes, c), append(want, err)
	}
	wantErrors(t, s, changes, want)
	wantMembers(t, s, "B", left)
}

// What comes after a failure still comes in order, also in the same set.
func testOrderAfterFailure(t *testing.T, s ipsetutil.Sets) {
	set := hash("S", ipsetutil.HashIPPort, ipsetutil.IPv4)
	set.MaxElem = 2
	create(t, s, set)
	do(t, s, add("S", port4(1)), add("S", port4(2)))
	none, full := ipsetutil.ErrNoEntry, ipsetutil.ErrFull
	wantErrors(t, s, []ipsetutil.Change{
		add("S", port4(3)),
		del("S", port4(9)), del("S", port4(1)),
		add("S", port4(4)), add("S", port4(5)), add("S", port4(2)),
		del("S", port4(5)), del("S", port4(4)), del("S", port4(4)),
		add("S", port4(4)), add("S", port4(6)),
		del("S", port4(4)), add("S", port4(7)),
	}, []error{full, none, nil, nil, full, nil, none, nil, none, nil, full, nil, nil})
	wantMembers(t, s, "S", map[ipsetutil.Entry]uint32{port4(2): 0, port4(7): 0})
}

// Changes of many sets, in turn and with failures.
func testManySets(t *testing.T, s ipsetutil.Sets) {
	const sets, rounds = 150, 7
	create(t, s, bitmap("STRANGER"))
	for i := range sets {
		create(t, s, bitmap(fmt.Sprint("B", i)))
	}
	var changes []ipsetutil.Change
	var want []error
	for round := range rounds {
		for i := range sets {
			name := fmt.Sprint("B", i)
			changes = append(changes, add(name, ipsetutil.Entry{Port: uint16(round)}))
			want = append(want, nil)
			if (i+round)%50 == 0 {
				changes = append(changes, del(name, ipsetutil.Entry{Port: 1000}))
				want = append(want, ipsetutil.ErrNoEntry)
			}
		}
	}
	wantErrors(t, s, changes, want)
	for i := range sets {
		if got := members(t, s, fmt.Sprint("B", i)); len(got) != rounds {
			t.Errorf("B%d has %v", i, got)
		}
	}
}

// A set whose list fills many messages.
func testBigSet(t *testing.T, s ipsetutil.Sets) {
	set := hash("S", ipsetutil.HashIPPortIP, ipsetutil.IPv6)
	set.Marks = true
	create(t, s, set)
	want := map[ipsetutil.Entry]uint32{}
	var changes []ipsetutil.Change
	for i := range 5000 {
		e := ipsetutil.Entry{Addr: address(ipsetutil.IPv6, i%100), Protocol: 17, Port: uint16(i), Source: hosts(ipsetutil.IPv6)[i%2]}
		want[e] = uint32(i)
		changes = append(changes, addMark("S", e, uint32(i)))
	}
	do(t, s, changes...)
	wantMembers(t, s, "S", want)
}

// Random changes give the outcomes and the members of a plain map.
func testRandom(t *testing.T, s ipsetutil.Sets) {
	sets := []ipsetutil.Set{
		hash("A", ipsetutil.HashIPPort, ipsetutil.IPv4), hash("B", ipsetutil.HashIPPort, ipsetutil.IPv4),
		hash("C", ipsetutil.HashIPPort, ipsetutil.IPv4), hash("D", ipsetutil.HashIPPort, ipsetutil.IPv4),
	}
	sets[0].Marks = true
	sets[1].MaxElem = 6
	model := map[string]map[ipsetutil.Entry]uint32{}
	limit := map[string]int{}
	for _, set := range sets[:3] { // D is missing
		create(t, s, set)
		model[set.Name] = map[ipsetutil.Entry]uint32{}
		limit[set.Name] = int(set.MaxElem)
	}
	const seed = 20
	r := rand.New(rand.NewPCG(seed, seed))
	for round := range 60 {
		var changes []ipsetutil.Change
		var want []error
		for range r.IntN(40) {
			c := add(sets[r.IntN(100)%len(sets)].Name, port4(r.IntN(12)))
			c.Delete = r.IntN(2) == 0
			if c.Member.Set == "A" && !c.Delete {
				c.Mark = uint32(r.IntN(3))
			}
			changes = append(changes, c)
			want = append(want, apply(model, limit, c))
		}
		wantErrors(t, s, changes, want)
		for name, m := range model {
			if got := members(t, s, name); !maps.Equal(got, m) {
				t.Errorf("round %d: %s has %v, want %v", round, name, got, m)
			}
		}
		if t.Failed() {
			t.Fatalf("changes of round %d (seed %d): %v", round, seed, changes)
		}
	}
}

// apply makes the change in the model and says what the door should say.
func apply(model map[string]map[ipsetutil.Entry]uint32, limit map[string]int, c ipsetutil.Change) error {
	m, ok := model[c.Member.Set]
	if !ok {
		return ipsetutil.ErrNoSet
	}
	_, present := m[c.Member.Entry]
	switch {
	case c.Delete && !present:
		return ipsetutil.ErrNoEntry
	case c.Delete:
		delete(m, c.Member.Entry)
	case !present && len(m) >= limit[c.Member.Set]:
		return ipsetutil.ErrFull
	default:
		m[c.Member.Entry] = c.Mark
	}
	return nil
}
