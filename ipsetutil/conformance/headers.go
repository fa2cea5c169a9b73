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
