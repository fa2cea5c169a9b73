package conformance

import (
	"context"
	"errors"
	"maps"
	"testing"

	"kube-ipvs-proxy/ipsetutil"
)

func headers(t *testing.T, s ipsetutil.Sets) map[string]ipsetutil.Header {
	t.Helper()
	got, err := s.Headers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, h := range got {
		h.HashSize = 0 // the kernel's own affair
		got[name] = h
	}
	return got
}

func testHeaders(t *testing.T, s ipsetutil.Sets) {
	frontends, ports := hash("F", ipsetutil.HashIPPort, ipsetutil.IPv6), ipsetutil.NodePortTCP.For(false)
	frontends.MaxElem, frontends.Marks = 77, true
	create(t, s, frontends, ports)
	want := func(what string, frontendsHas, portsHas uint32) {
		t.Helper()
		w := map[string]ipsetutil.Header{
			frontends.Name: {Set: frontends, Entries: frontendsHas}, ports.Name: {Set: ports, Entries: portsHas},
		}
		if got := headers(t, s); !maps.Equal(got, w) {
			t.Errorf("%s: %v, want %v", what, got, w)
		}
	}
	want("empty", 0, 0)
	port := func(n uint16) ipsetutil.Entry { return ipsetutil.Entry{Port: n} }
	do(t, s, add(ports.Name, port(80)), add(ports.Name, port(443)), add(ports.Name, port(80)),
		addMark(frontends.Name, samples(frontends)[0], 7))
	want("after adding", 1, 2)
	do(t, s, del(ports.Name, port(443)))
	want("after deleting", 1, 1)
}

// Header says of one set what Headers says.
func testHeader(t *testing.T, s ipsetutil.Sets) {
	set := hash("S", ipsetutil.HashIPPort, ipsetutil.IPv4)
	create(t, s, set, hash("OTHER", ipsetutil.HashIPPort, ipsetutil.IPv4))
	do(t, s, add("S", port4(1)), add("S", port4(2)), add("OTHER", port4(3)))
	got, err := s.Header(t.Context(), "S")
	got.HashSize = 0
	if want := (ipsetutil.Header{Set: set, Entries: 2}); err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	if _, err := s.Header(t.Context(), "MISSING"); !errors.Is(err, ipsetutil.ErrNoSet) {
		t.Errorf("of a missing set: %v", err)
	}
}

// Holds finds each form of entry of every own set, and says no as soon as one of many,
// or a set, is missing.
func testHolds(t *testing.T, s ipsetutil.Sets) {
	holds := func(what string, want bool, members ...ipsetutil.Member) {
		t.Helper()
		if got, err := s.Holds(t.Context(), members); err != nil || got != want {
			t.Errorf("%s: %v, %v, want %v", what, got, err, want)
		}
	}
	var all []ipsetutil.Member
	for _, set := range ipsetutil.All() {
		create(t, s, set)
		for _, e := range samples(set) {
			m := ipsetutil.Member{Set: set.Name, Entry: e}
			holds("before it is added", false, m)
			c := add(set.Name, e)
			if set.Marks {
				c.Mark = 0x20000
			}
			do(t, s, c)
			holds(m.String(), true, m)
			all = append(all, m)
		}
	}
	holds("all", true, all...)
	holds("none", true)
	last := all[len(all)-1]
	do(t, s, del(last.Set, last.Entry))
	holds("one is gone", false, all...)
	if err := s.Destroy(t.Context(), all[0].Set); err != nil {
		t.Fatal(err)
	}
	holds("a set is gone", false, all[0])
	foreign := hash("FOREIGN", ipsetutil.HashIPPort, ipsetutil.IPv4)
	create(t, s, foreign)
	do(t, s, add("FOREIGN", port4(1)))
	holds("of a foreign set", true, ipsetutil.Member{Set: "FOREIGN", Entry: port4(1)})
	holds("of a foreign set", false, ipsetutil.Member{Set: "FOREIGN", Entry: port4(2)})
	holds("of a foreign set that is missing", false, ipsetutil.Member{Set: "MISSING", Entry: port4(2)})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Holds(ctx, all); err == nil {
		t.Error("a cancelled one succeeded")
	}
}

// All but the names changes places: members, marks and sizes.
func testSwap(t *testing.T, s ipsetutil.Sets) {
	small, big := hash("S", ipsetutil.HashIPPort, ipsetutil.IPv4), hash("B", ipsetutil.HashIPPort, ipsetutil.IPv4)
	small.MaxElem, big.MaxElem, big.Marks = 2, 9, true
	create(t, s, small, big, hash("6", ipsetutil.HashIPPort, ipsetutil.IPv6), hash("IP", ipsetutil.HashIP, ipsetutil.IPv4))
	do(t, s, add("S", port4(1)), addMark("B", port4(2), 7), addMark("B", port4(3), 8))
	if err := s.Swap(t.Context(), "B", "S"); err != nil {
		t.Fatal(err)
	}
	wantMembers(t, s, "S", map[ipsetutil.Entry]uint32{port4(2): 7, port4(3): 8})
	wantMembers(t, s, "B", map[ipsetutil.Entry]uint32{port4(1): 0})
	small.Name, big.Name = "B", "S"
	got := headers(t, s)
	if got["S"].Set != big || got["B"].Set != small {
		t.Errorf("after the swap S is %+v and B %+v", got["S"].Set, got["B"].Set)
	}
	do(t, s, addMark("S", port4(4), 9))
	for _, c := range []struct {
		a, b string
		want error
	}{
		{"S", "MISSING", ipsetutil.ErrNoSet}, {"MISSING", "S", ipsetutil.ErrNoSet},
		{"S", "6", ipsetutil.ErrMismatch}, {"S", "IP", ipsetutil.ErrMismatch},
	} {
		err := s.Swap(t.Context(), c.a, c.b)
		if of := (*ipsetutil.OpError)(nil); !errors.Is(err, c.want) || !errors.As(err, &of) {
			t.Errorf("swap %s and %s: %v, want %v", c.a, c.b, err, c.want)
		}
	}
}

// Replace takes a full set's place by a bigger one, whatever an earlier one left, and
// changes nothing where it fails.
func testReplace(t *testing.T, s ipsetutil.Sets) {
	set := hash("S", ipsetutil.HashIPPort, ipsetutil.IPv4)
	set.MaxElem, set.Marks = 3, true
	left := hash(ipsetutil.Spare, ipsetutil.HashIP, ipsetutil.IPv6)
	create(t, s, set, left)
	members := map[ipsetutil.Entry]uint32{port4(1): 1, port4(2): 2, port4(3): 3}
	for e, mark := range members {
		do(t, s, addMark("S", e, mark))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	small := set
	small.MaxElem = 2
	if err := ipsetutil.Replace(ctx, s, set, members); err == nil {
		t.Error("a cancelled one succeeded")
	}
	if err := ipsetutil.Replace(t.Context(), s, small, members); !errors.Is(err, ipsetutil.ErrFull) {
		t.Errorf("too small: %v", err)
	}
	wantMembers(t, s, "S", members)
	big := set.Fits(4)
	if err := ipsetutil.Replace(t.Context(), s, big, members); err != nil {
		t.Fatal(err)
	}
	wantMembers(t, s, "S", members)
	do(t, s, addMark("S", port4(4), 4))
	if got := headers(t, s); len(got) != 1 || got["S"].Set != big || big.MaxElem != 6 {
		t.Errorf("afterwards there are %v, want one of size 6", got)
	}
}
