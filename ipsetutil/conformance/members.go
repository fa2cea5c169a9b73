package conformance

import (
	"fmt"
	"net/netip"
	"testing"

	"kube-ipvs-proxy/ipsetutil"
)

// Every form of entry of every own set comes back as it was added, and can be deleted.
func testMembersOfEachType(t *testing.T, s ipsetutil.Sets) {
	for _, set := range ipsetutil.All() {
		create(t, s, set)
		want := map[ipsetutil.Entry]uint32{}
		var adds, deletes []ipsetutil.Change
		for i, e := range samples(set) {
			c := add(set.Name, e)
			if set.Marks {
				c.Mark = 0x20000 + uint32(i)
			}
			want[e] = c.Mark
			adds = append(adds, c)
			deletes = append(deletes, del(set.Name, e))
		}
		if len(want) != len(adds) {
			t.Fatalf("%s: %d samples, %d of them different", set.Name, len(adds), len(want))
		}
		do(t, s, adds...)
		wantMembers(t, s, set.Name, want)
		do(t, s, deletes[1:]...)
		wantMembers(t, s, set.Name, map[ipsetutil.Entry]uint32{adds[0].Member.Entry: adds[0].Mark})
	}
}

func testIdempotent(t *testing.T, s ipsetutil.Sets) {
	create(t, s, hash("S", ipsetutil.HashIPPort, ipsetutil.IPv4))
	if errs := s.Do(t.Context(), nil); errs != nil {
		t.Errorf("no changes: %v", errs)
	}
	for range 2 {
		do(t, s, add("S", port4(1)), add("S", port4(1)), add("S", port4(2)))
		wantMembers(t, s, "S", map[ipsetutil.Entry]uint32{port4(1): 0, port4(2): 0})
	}
}

func testMarks(t *testing.T, s ipsetutil.Sets) {
	for _, f := range []ipsetutil.Family{ipsetutil.IPv4, ipsetutil.IPv6} {
		set := hash("S"+f.String(), ipsetutil.HashIPPort, f)
		set.Marks = true
		create(t, s, set)
		a := ipsetutil.Entry{Addr: address(f, 1), Protocol: 6, Port: 80}
		b := ipsetutil.Entry{Addr: address(f, 2), Protocol: 17, Port: 53}
		do(t, s, addMark(set.Name, a, 0x20001), addMark(set.Name, b, 0xfffffffe))
		wantMembers(t, s, set.Name, map[ipsetutil.Entry]uint32{a: 0x20001, b: 0xfffffffe})
		do(t, s, addMark(set.Name, a, 0x20002), addMark(set.Name, a, 0x12345678), add(set.Name, b))
		wantMembers(t, s, set.Name, map[ipsetutil.Entry]uint32{a: 0x12345678, b: 0})
		do(t, s, del(set.Name, a), addMark(set.Name, b, 7)) // whatever its mark
		wantMembers(t, s, set.Name, map[ipsetutil.Entry]uint32{b: 7})
	}
}

func testDeleteMissing(t *testing.T, s ipsetutil.Sets) {
	create(t, s, bitmap("B"), hash("H", ipsetutil.HashIPPortNet, ipsetutil.IPv6))
	do(t, s, add("B", ipsetutil.Entry{Port: 1}))
	e := ipsetutil.Entry{Addr: address(ipsetutil.IPv6, 1), Protocol: 6, Port: 80, Source: nets(ipsetutil.IPv6)[63]}
	wantErrors(t, s, []ipsetutil.Change{
		del("B", ipsetutil.Entry{Port: 2}), del("B", ipsetutil.Entry{Port: 1}), del("B", ipsetutil.Entry{Port: 1}), del("H", e),
	}, []error{ipsetutil.ErrNoEntry, nil, ipsetutil.ErrNoEntry, ipsetutil.ErrNoEntry})
}

func testInvalidMembers(t *testing.T, s ipsetutil.Sets) {
	port := ipsetutil.ClusterIP.Name(false)
	port6 := ipsetutil.ClusterIP.Name(true)
	node := ipsetutil.NodePortTCP.Name(false)
	loop := ipsetutil.LoopBack.Name(false)
	source := ipsetutil.LoadBalancerSourceCIDR.Name(false)
	addrs := ipsetutil.IPVSIPs.Name(false)
	for _, k := range []ipsetutil.Kind{
		ipsetutil.ClusterIP, ipsetutil.NodePortTCP, ipsetutil.LoopBack, ipsetutil.LoadBalancerSourceCIDR, ipsetutil.IPVSIPs,
	} {
		create(t, s, k.For(false), k.For(true))
	}
	with := func(prefix string) ipsetutil.Entry {
		e := port4(1)
		e.Source = netip.MustParsePrefix(prefix)
		return e
	}
	noProtocol := port4(1)
	noProtocol.Protocol = 0
	changes := []ipsetutil.Change{
		add(port6, port4(1)), del(port6, port4(1)), add(port, ipsetutil.Entry{Port: 1}), add(port, ipsetutil.Entry{}),
		add(port, noProtocol), add(port, with("10.0.0.0/8")), addMark(port, port4(1), 1),
		add(addrs, port4(1)), add(addrs, ipsetutil.Entry{Addr: netip.IPv4Unspecified()}),
		add(node, port4(1)), add(node, ipsetutil.Entry{Port: 1, Protocol: 6}), addMark(node, ipsetutil.Entry{Port: 1}, 1),
		add(loop, port4(1)), add(loop, with("10.0.0.0/31")), del(loop, with("10.0.0.0/31")),
		add(source, port4(1)), add(source, with("0.0.0.0/0")), del(source, with("0.0.0.0/0")),
		add(source, with("10.0.0.1/8")), add(source, with("fd00::/64")),
	}
	want := make([]error, len(changes))
	for i := range want {
		want[i] = ipsetutil.ErrInvalid
	}
	// A valid one at both ends and in the middle is done all the same.
	changes = append(append([]ipsetutil.Change{add(port, port4(7))}, changes...), add(source, with("10.0.0.0/8")))
	want = append(append([]error{nil}, want...), nil)
	wantErrors(t, s, changes, want)
	for name, n := range map[string]int{port: 1, port6: 0, node: 0, loop: 0, source: 1, addrs: 0} {
		if got := members(t, s, name); len(got) != n {
			t.Errorf("%s has %v", name, got)
		}
	}
}

// A full set takes what it has already, with another mark as well, and a new entry
// after a delete.
func testFull(t *testing.T, s ipsetutil.Sets) {
	set := hash("S", ipsetutil.HashIPPort, ipsetutil.IPv4)
	set.MaxElem, set.Marks = 3, true
	create(t, s, set)
	full := ipsetutil.ErrFull
	wantErrors(t, s, []ipsetutil.Change{
		addMark("S", port4(1), 1), addMark("S", port4(2), 2), addMark("S", port4(3), 3),
		addMark("S", port4(4), 4), addMark("S", port4(2), 9), addMark("S", port4(5), 5), addMark("S", port4(1), 1),
		del("S", port4(1)), addMark("S", port4(6), 6), addMark("S", port4(7), 7),
	}, []error{nil, nil, nil, full, nil, full, nil, nil, nil, full})
	wantMembers(t, s, "S", map[ipsetutil.Entry]uint32{port4(2): 9, port4(3): 3, port4(6): 6})
}

// Concurrent callers do not disturb each other.
func testConcurrent(t *testing.T, s ipsetutil.Sets) {
	var names []string
	for i := range 4 {
		names = append(names, fmt.Sprint("S", i))
		create(t, s, hash(names[i], ipsetutil.HashIPPort, ipsetutil.IPv4))
	}
	done := make(chan error, len(names))
	for _, name := range names {
		go func() {
			var first error
			for i := range 20 {
				for _, err := range s.Do(t.Context(), []ipsetutil.Change{add(name, port4(i)), del(name, port4(i)), add(name, port4(1000+i))}) {
					if err != nil {
						first = err
					}
				}
				if m, err := s.Members(t.Context(), name); err != nil || len(m) != i+1 {
					first = fmt.Errorf("%s has %d members, want %d: %w", name, len(m), i+1, err)
				}
			}
			done <- first
		}()
	}
	for range names {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
