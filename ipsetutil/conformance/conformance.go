// Package conformance is the contract of ipsetutil.Sets as tests. The fake and the
// kernel run the same suite, so that what holds with the fake holds with the kernel.
package conformance

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"testing"

	"kube-ipvs-proxy/ipsetutil"
)

// RunSets runs the suite. new returns a door to a namespace without any set.
func RunSets(t *testing.T, new func(t *testing.T) ipsetutil.Sets) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s ipsetutil.Sets)
	}{
		{"CreateAll", testCreateAll},
		{"CreateMismatch", testCreateMismatch},
		{"CreateInvalid", testCreateInvalid},
		{"Destroy", testDestroy},
		{"Headers", testHeaders},
		{"Header", testHeader},
		{"Holds", testHolds},
		{"Swap", testSwap},
		{"Replace", testReplace},
		{"MembersOfEachType", testMembersOfEachType},
		{"Idempotent", testIdempotent},
		{"Marks", testMarks},
		{"DeleteMissing", testDeleteMissing},
		{"MissingSet", testMissingSet},
		{"InvalidMembers", testInvalidMembers},
		{"Full", testFull},
		{"EachOnItsOwn", testEachOnItsOwn},
		{"ManyInvalid", testManyInvalid},
		{"OrderAfterFailure", testOrderAfterFailure},
		{"ManySets", testManySets},
		{"BigSet", testBigSet},
		{"Random", testRandom},
		{"Cancelled", testCancelled},
		{"Concurrent", testConcurrent},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, new(t)) })
	}
}

func create(t *testing.T, s ipsetutil.Sets, sets ...ipsetutil.Set) {
	t.Helper()
	for _, set := range sets {
		if err := s.Create(t.Context(), set); err != nil {
			t.Fatalf("create %+v: %v", set, err)
		}
	}
}

func members(t *testing.T, s ipsetutil.Sets, name string) map[ipsetutil.Entry]uint32 {
	t.Helper()
	m, err := s.Members(t.Context(), name)
	if err != nil {
		t.Fatalf("members of %s: %v", name, err)
	}
	return m
}

func wantMembers(t *testing.T, s ipsetutil.Sets, name string, want map[ipsetutil.Entry]uint32) {
	t.Helper()
	if got := members(t, s, name); !maps.Equal(got, want) {
		t.Errorf("%s has %v, want %v", name, short(got), short(want))
	}
}

// short keeps the text of a failure readable.
func short(m map[ipsetutil.Entry]uint32) any {
	if len(m) > 20 {
		return len(m)
	}
	return m
}

// do makes changes of which all should succeed.
func do(t *testing.T, s ipsetutil.Sets, changes ...ipsetutil.Change) {
	t.Helper()
	if errs := s.Do(t.Context(), changes); errs != nil {
		t.Fatalf("Do: %v", errors.Join(errs...))
	}
}

// wantErrors makes changes and compares each outcome; a nil in want is success.
func wantErrors(t *testing.T, s ipsetutil.Sets, changes []ipsetutil.Change, want []error) {
	t.Helper()
	errs := s.Do(t.Context(), changes)
	if errs == nil {
		errs = make([]error, len(changes))
	}
	if len(errs) != len(changes) {
		t.Fatalf("%d errors for %d changes", len(errs), len(changes))
	}
	for i, err := range errs {
		if want[i] == nil && err != nil || !errors.Is(err, want[i]) {
			t.Errorf("change %d, %v: error %v, want %v", i, changes[i], err, want[i])
		}
		if err != nil {
			wantOpError(t, err, changes[i].Member.String())
		}
	}
}

// wantOpError checks that the error says what it was about.
func wantOpError(t *testing.T, err error, object string) {
	t.Helper()
	var op *ipsetutil.OpError
	if !errors.As(err, &op) || op.Object != object || op.Op == "" {
		t.Errorf("error %q (%T) does not name %q", err, err, object)
	}
}

func testCreateAll(t *testing.T, s ipsetutil.Sets) {
	if names, err := s.Names(t.Context()); err != nil || len(names) != 0 {
		t.Fatalf("a new namespace has sets %v, error %v", names, err)
	}
	all := ipsetutil.All()
	create(t, s, all...)
	create(t, s, all...)
	names, err := s.Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, set := range all {
		want = append(want, set.Name)
	}
	slices.Sort(names)
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("names %v, want %v", names, want)
	}
}

// A create of a present set keeps its members.
func testCreateMismatch(t *testing.T, s ipsetutil.Sets) {
	set := hash("S", ipsetutil.HashIPPort, ipsetutil.IPv4)
	create(t, s, set)
	do(t, s, add("S", port4(1)))
	for name, change := range map[string]func(*ipsetutil.Set){
		"maxelem": func(s *ipsetutil.Set) { s.MaxElem++ },
		"type":    func(s *ipsetutil.Set) { s.Type = ipsetutil.HashIP },
		"family":  func(s *ipsetutil.Set) { s.Family = ipsetutil.IPv6 },
		"marks":   func(s *ipsetutil.Set) { s.Marks = true },
		"bitmap": func(s *ipsetutil.Set) {
			*s = ipsetutil.Set{Name: "S", Type: ipsetutil.BitmapPort}
		},
	} {
		other := set
		change(&other)
		err := s.Create(t.Context(), other)
		if !errors.Is(err, ipsetutil.ErrMismatch) {
			t.Errorf("other %s: %v, want ErrMismatch", name, err)
			continue
		}
		wantOpError(t, err, "S")
	}
	create(t, s, set)
	wantMembers(t, s, "S", map[ipsetutil.Entry]uint32{port4(1): 0})
}

func testCreateInvalid(t *testing.T, s ipsetutil.Sets) {
	for _, set := range []ipsetutil.Set{
		{},
		{Name: "S"},
		{Name: "S", Type: ipsetutil.HashIP, MaxElem: 1},
		{Name: "S", Type: ipsetutil.HashIP, Family: ipsetutil.IPv4},
		{Name: "12345678901234567890123456789012", Type: ipsetutil.BitmapPort},
	} {
		err := s.Create(t.Context(), set)
		if !errors.Is(err, ipsetutil.ErrInvalid) {
			t.Errorf("create %+v: %v, want ErrInvalid", set, err)
			continue
		}
		wantOpError(t, err, set.Name)
	}
	if names, err := s.Names(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("sets %v were made, error %v", names, err)
	}
}

func testDestroy(t *testing.T, s ipsetutil.Sets) {
	create(t, s, bitmap("A"), bitmap("B"))
	do(t, s, add("A", ipsetutil.Entry{Port: 1}))
	for range 2 { // the second time it is missing
		if err := s.Destroy(t.Context(), "A"); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := s.Names(t.Context()); err != nil || !slices.Equal(names, []string{"B"}) {
		t.Errorf("names %v, error %v", names, err)
	}
	create(t, s, bitmap("A"))
	wantMembers(t, s, "A", nil)
}

func testMissingSet(t *testing.T, s ipsetutil.Sets) {
	create(t, s, bitmap("S"))
	missing := ipsetutil.ClusterIP.For(false).Name
	err := func() error { _, err := s.Members(t.Context(), missing); return err }()
	if !errors.Is(err, ipsetutil.ErrNoSet) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("members: %v, want ErrNoSet", err)
	} else {
		wantOpError(t, err, missing)
	}
	no := ipsetutil.ErrNoSet
	wantErrors(t, s, []ipsetutil.Change{
		add(missing, port4(1)), add("S", ipsetutil.Entry{Port: 1}), del(missing, port4(1)), del(missing, port4(2)),
		add("ALSO-MISSING", port4(1)), add("S", ipsetutil.Entry{Port: 2}), del("ALSO-MISSING", port4(1)),
	}, []error{no, nil, no, no, no, nil, no})
	wantMembers(t, s, "S", map[ipsetutil.Entry]uint32{{Port: 1}: 0, {Port: 2}: 0})
}

func testCancelled(t *testing.T, s ipsetutil.Sets) {
	create(t, s, bitmap("S"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	changes := []ipsetutil.Change{add("S", ipsetutil.Entry{Port: 1}), add("S", ipsetutil.Entry{Port: 2})}
	errs := s.Do(ctx, changes)
	if len(errs) != len(changes) {
		t.Fatalf("%d errors for %d changes", len(errs), len(changes))
	}
	_, names := s.Names(ctx)
	_, list := s.Members(ctx, "S")
	errs = append(errs, s.Create(ctx, bitmap("T")), s.Destroy(ctx, "S"), names, list)
	for i, err := range errs {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d: %v", i, err)
		}
	}
	wantMembers(t, s, "S", nil)
}
