package conformance

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"kube-ipvs-proxy/ipvsutil"
)

// IPVS is the door under test, with what the start of the program asks.
type IPVS interface {
	ipvsutil.IPVS
	HasScheduler(ctx context.Context, name string) (bool, error)
	Timeouts(ctx context.Context) (ipvsutil.Timeouts, error)
	SetTimeouts(ctx context.Context, t ipvsutil.Timeouts) error
}

// RunIPVS tests that what open returns keeps the contract of ipvsutil.IPVS. Each
// call of open has to give an empty namespace whose loopback is up; it is called
// by the goroutine that then uses the door.
func RunIPVS(t *testing.T, open func(t *testing.T) IPVS) {
	for _, s := range ipvsScenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Run("one by one", func(t *testing.T) { s.run(t, open(t), true) })
			t.Run("batch", func(t *testing.T) { s.run(t, open(t), false) })
		})
	}
	for name, test := range map[string]func(*testing.T, IPVS){
		"many servers":          testManyServers,
		"many real servers":     testManyReals,
		"missing server":        testMissingServer,
		"cancelled":             testIPVSCancelled,
		"has scheduler":         testHasScheduler,
		"timeouts":              testTimeouts,
		"foreign is not wanted": testForeignIgnored,
		"drained is kept":       testDrainedKept,
		"several goroutines":    testGoroutines,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
}

// run does the steps in order and compares errors and end state.
func (s ipvsScenario) run(t *testing.T, door IPVS, single bool) {
	ops := make([]ipvsutil.Op, len(s.steps))
	for i, step := range s.steps {
		ops[i] = step.op
	}
	var errs []error
	if single {
		for _, op := range ops {
			errs = append(errs, one(door.Do(t.Context(), []ipvsutil.Op{op})))
		}
	} else if errs = door.Do(t.Context(), ops); errs == nil {
		errs = make([]error, len(ops))
	}
	if len(errs) != len(ops) {
		t.Fatalf("%d errors for %d ops", len(errs), len(ops))
	}
	for i, step := range s.steps {
		step.check(t, errs[i])
	}
	if got := dumpIPVS(t, door); got != s.want {
		t.Errorf("there is\n%s, want\n%s", got, s.want)
	}
}

func one(errs []error) error {
	if len(errs) == 0 {
		return nil
	}
	return errs[0]
}

// Longer than the parts of a dump, than a batch, and with failures in every batch.
func testManyServers(t *testing.T, door IPVS) {
	const n = 2500
	var ops []ipvsutil.Op
	for i := range n {
		ops = append(ops, createServer(numbered(i)), createReal(numbered(i), numberedReal(i)))
		if i%100 == 0 {
			ops = append(ops, createServer(numbered(i)))
		}
	}
	failed := 0
	for i, err := range door.Do(t.Context(), ops) {
		if err != nil {
			failed++
			mean(t, ops[i], err, exists)
		}
	}
	if failed != n/100 {
		t.Errorf("%d failed, want %d", failed, n/100)
	}
	list, err := door.VirtualServers(t.Context())
	if err != nil || len(list) != n {
		t.Fatalf("%d servers, error %v", len(list), err)
	}
	for i, v := range list {
		if v != numbered(i) {
			t.Fatalf("server %d is %v, want %v", i, v, numbered(i))
		}
	}
	ops = ops[:0]
	for i := range n {
		ops = append(ops, deleteServer(numbered(i)))
	}
	if errs := door.Do(t.Context(), ops); errs != nil {
		t.Fatal(errors.Join(errs...))
	}
	if got := dumpIPVS(t, door); got != "" {
		t.Errorf("left:\n%s", got)
	}
}

func testManyReals(t *testing.T, door IPVS) {
	const n = 700
	v := numbered(1)
	ops := []ipvsutil.Op{createServer(v)}
	for i := range n {
		ops = append(ops, createReal(v, numberedReal(i)))
	}
	if errs := door.Do(t.Context(), ops); errs != nil {
		t.Fatal(errors.Join(errs...))
	}
	list, err := door.RealServers(t.Context(), v.Key)
	if err != nil || len(list) != n {
		t.Fatalf("%d real servers, error %v", len(list), err)
	}
	for i, r := range list {
		if r.RealServer != numberedReal(i) || !r.Connections.Idle() {
			t.Fatalf("real server %d is %v, want %v", i, r, numberedReal(i))
		}
	}
}

func testMissingServer(t *testing.T, door IPVS) {
	for _, key := range []ipvsutil.Key{numbered(1).Key, ipvsutil.MarkKey(9, true)} {
		if list, err := door.RealServers(t.Context(), key); err != nil || len(list) != 0 {
			t.Errorf("%s: %v, error %v", key, list, err)
		}
	}
	if list, err := door.RealServers(t.Context(), ipvsutil.Key{}); err == nil {
		t.Errorf("the real servers of no key are %v", list)
	}
	if list, err := door.VirtualServers(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("%v, error %v", list, err)
	}
	if errs := door.Do(t.Context(), nil); errs != nil {
		t.Errorf("errors of nothing: %v", errs)
	}
}

func testIPVSCancelled(t *testing.T, door IPVS) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ops := []ipvsutil.Op{createServer(numbered(1)), createReal(numbered(1), numberedReal(1))}
	errs := door.Do(ctx, ops)
	if len(errs) != len(ops) {
		t.Fatalf("%d errors", len(errs))
	}
	for _, err := range errs {
		var op *ipvsutil.OpError
		if !errors.Is(err, context.Canceled) || !errors.As(err, &op) || errors.Is(err, ipvsutil.ErrUnknownOutcome) {
			t.Errorf("error %v", err)
		}
	}
	if _, err := door.VirtualServers(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("list: %v", err)
	}
	if _, err := door.RealServers(ctx, numbered(1).Key); !errors.Is(err, context.Canceled) {
		t.Errorf("list: %v", err)
	}
	if got := dumpIPVS(t, door); got != "" {
		t.Errorf("there is\n%s", got)
	}
}

// The question leaves nothing behind, whether there are servers or not.
func testHasScheduler(t *testing.T, door IPVS) {
	for range 2 {
		before := dumpIPVS(t, door)
		for name, want := range map[string]bool{"rr": true, "wlc": true, "nosuch": false, "": false, "much-too-long-a-name": false} {
			if got, err := door.HasScheduler(t.Context(), name); err != nil || got != want {
				t.Errorf("%q: %v, error %v", name, got, err)
			}
		}
		if got := dumpIPVS(t, door); got != before {
			t.Errorf("there is\n%s, before it was\n%s", got, before)
		}
		if errs := door.Do(t.Context(), []ipvsutil.Op{createServer(numbered(1))}); before == "" && errs != nil {
			t.Fatal(errs)
		}
	}
}

func testTimeouts(t *testing.T, door IPVS) {
	set := func(change, want ipvsutil.Timeouts) {
		t.Helper()
		if err := door.SetTimeouts(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		if got, err := door.Timeouts(t.Context()); err != nil || got != want {
			t.Fatalf("timeouts %+v, error %v; want %+v", got, err, want)
		}
	}
	set(ipvsutil.Timeouts{TCP: 7200, TCPFin: 130, UDP: 310}, ipvsutil.Timeouts{TCP: 7200, TCPFin: 130, UDP: 310})
	set(ipvsutil.Timeouts{TCPFin: 1}, ipvsutil.Timeouts{TCP: 7200, TCPFin: 1, UDP: 310})
	set(ipvsutil.Timeouts{TCP: ipvsutil.MaxTimeout}, ipvsutil.Timeouts{TCP: ipvsutil.MaxTimeout, TCPFin: 1, UDP: 310})
	if err := door.SetTimeouts(t.Context(), ipvsutil.Timeouts{UDP: ipvsutil.MaxTimeout + 1}); err == nil {
		t.Error("too long is no error")
	}
	set(ipvsutil.Timeouts{}, ipvsutil.Timeouts{TCP: ipvsutil.MaxTimeout, TCPFin: 1, UDP: 310})
}

// A server read as foreign and written again comes back without it.
func testForeignIgnored(t *testing.T, door IPVS) {
	v, r := numbered(1), numberedReal(1)
	v.Foreign, r.Foreign = true, true
	if errs := door.Do(t.Context(), []ipvsutil.Op{createServer(v), createReal(v, r), updateServer(v), updateReal(v, r)}); errs != nil {
		t.Fatal(errs)
	}
	v.Foreign, r.Foreign = false, false
	if got, want := dumpIPVS(t, door), v.String()+"\nrs "+v.Key.String()+" "+r.String()+"\n"; got != want {
		t.Errorf("there is\n%s, want\n%s", got, want)
	}
}

// The begin of a drain is read as it was written, and goes with the weight.
func testDrainedKept(t *testing.T, door IPVS) {
	v, r := numbered(1), numberedReal(1)
	drained := ipvsutil.RealServer{Addr: r.Addr, Drained: ipvsutil.DrainedAt(time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC))}
	if errs := door.Do(t.Context(), []ipvsutil.Op{createServer(v), createReal(v, r)}); errs != nil {
		t.Fatal(errs)
	}
	for _, want := range []ipvsutil.RealServer{drained, r, {Addr: r.Addr}, drained} {
		if errs := door.Do(t.Context(), []ipvsutil.Op{updateReal(v, want)}); errs != nil {
			t.Fatal(errs)
		}
		if got, err := door.RealServers(t.Context(), v.Key); err != nil || len(got) != 1 || got[0].RealServer != want {
			t.Errorf("%+v, error %v; want %+v", got, err, want)
		}
	}
}

// Writers and readers at once: every answer is the right one, and no list is torn.
func testGoroutines(t *testing.T, door IPVS) {
	var all sync.WaitGroup
	for g := range 4 {
		all.Go(func() {
			for i := range 50 {
				v := numbered(1000*g + i)
				if errs := door.Do(t.Context(), []ipvsutil.Op{createServer(v), createReal(v, numberedReal(g)), createServer(v)}); len(errs) != 3 || errs[0] != nil || errs[1] != nil || errs[2] == nil {
					t.Errorf("create %v: %v", v, errs)
				}
				list, err := door.VirtualServers(t.Context())
				if err != nil || !slices.Contains(list, v) {
					t.Errorf("%v is not in the list, error %v", v, err)
				}
				if reals, err := door.RealServers(t.Context(), v.Key); err != nil || len(reals) != 1 {
					t.Errorf("%v has %v, error %v", v, reals, err)
				}
				if errs := door.Do(t.Context(), []ipvsutil.Op{deleteServer(v)}); errs != nil {
					t.Errorf("delete %v: %v", v, errs)
				}
			}
		})
	}
	all.Wait()
}
