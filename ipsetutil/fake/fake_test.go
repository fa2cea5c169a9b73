package fake

import (
	"errors"
	"net/netip"
	"testing"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipsetutil/conformance"
)

func TestConformance(t *testing.T) {
	conformance.RunSets(t, func(*testing.T) ipsetutil.Sets { return New() })
}

var (
	shortCircuit = ipsetutil.ShortCircuit.For(false)
	nodePorts    = ipsetutil.NodePortTCP.For(false)
)

func http(mark uint32) ipsetutil.Change {
	return ipsetutil.Change{Mark: mark, Member: ipsetutil.Member{
		Set: shortCircuit.Name, Entry: ipsetutil.Entry{Addr: netip.MustParseAddr("10.96.0.1"), Protocol: 6, Port: 80},
	}}
}

func nodePort(port uint16) ipsetutil.Change {
	return ipsetutil.Change{Member: ipsetutil.Member{Set: nodePorts.Name, Entry: ipsetutil.Entry{Port: port}}}
}

func deleted(c ipsetutil.Change) ipsetutil.Change {
	c.Delete = true
	return c
}

// filled has both sets and two members.
func filled(t *testing.T) *Fake {
	t.Helper()
	f := New()
	for _, s := range []ipsetutil.Set{shortCircuit, nodePorts} {
		if err := f.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if errs := f.Do(t.Context(), []ipsetutil.Change{nodePort(30080), http(0x20001)}); errs != nil {
		t.Fatal(errs)
	}
	return f
}

func TestDump(t *testing.T) {
	want := "set KIPVS-SHORT-CIRCUIT 10.96.0.1,tcp:80 mark 0x20001\nset KUBE-NODE-PORT-TCP 30080\n"
	if got := filled(t).Dump(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := New().Dump(); got != "" {
		t.Errorf("an empty one dumps %q", got)
	}
}

func TestBusy(t *testing.T) {
	f := filled(t)
	f.Refer(nodePorts.Name, true)
	if err := f.Destroy(t.Context(), nodePorts.Name); !errors.Is(err, ipsetutil.ErrBusy) {
		t.Errorf("in use: %v", err)
	}
	f.Refer(nodePorts.Name, false)
	if err := f.Destroy(t.Context(), nodePorts.Name); err != nil {
		t.Errorf("no longer in use: %v", err)
	}
}

func TestCounts(t *testing.T) {
	f := filled(t)
	want := func(what string, w Counts) {
		t.Helper()
		if got := f.Counts(); got != w {
			t.Errorf("%s: %+v, want %+v", what, got, w)
		}
		f.ResetCounts()
	}
	want("filling", Counts{Requests: 4})
	_ = f.Do(t.Context(), []ipsetutil.Change{http(0x20001), nodePort(30080), deleted(nodePort(1))})
	want("needless changes", Counts{Requests: 3, Needless: 3})
	_ = f.Do(t.Context(), []ipsetutil.Change{http(0x20002), nodePort(30081), deleted(nodePort(30081))})
	want("needed changes", Counts{Requests: 3})
	_ = f.Create(t.Context(), nodePorts)
	_ = f.Destroy(t.Context(), "MISSING")
	want("needless sets", Counts{Requests: 2, Needless: 2})
	_, _ = f.Names(t.Context())
	_, _ = f.Members(t.Context(), nodePorts.Name)
	want("lists", Counts{Requests: 2})
}

func TestFailNth(t *testing.T) {
	boom := errors.New("boom")
	for n := 1; n <= 5; n++ {
		f := filled(t)
		before := f.Dump()
		f.FailNth(n, boom)
		_, err := f.Names(t.Context())
		errs := append([]error{err}, f.Do(t.Context(), []ipsetutil.Change{nodePort(1), nodePort(2)})...)
		for len(errs) < 3 { // nil: both succeeded
			errs = append(errs, nil)
		}
		errs = append(errs, f.Destroy(t.Context(), shortCircuit.Name), f.Create(t.Context(), shortCircuit))
		for i, err := range errs {
			if errors.Is(err, boom) != (i+1 == n) {
				t.Errorf("n = %d: request %d gave %v", n, i+1, err)
			}
		}
		if f.Dump() == before {
			t.Errorf("n = %d: nothing was done", n)
		}
	}
}

// A request that fails by a fault has done nothing.
func TestFaultDoesNothing(t *testing.T) {
	f := filled(t)
	before := f.Dump()
	var seen []string
	f.SetFault(func(op, object string) error {
		seen = append(seen, op+" "+object)
		return errors.New("boom")
	})
	_ = f.Do(t.Context(), []ipsetutil.Change{nodePort(1), deleted(nodePort(30080))})
	_ = f.Destroy(t.Context(), nodePorts.Name)
	_ = f.Create(t.Context(), ipsetutil.NodeIP.For(false))
	f.SetFault(nil)
	if got := f.Dump(); got != before {
		t.Errorf("changed to %s", got)
	}
	if names, err := f.Names(t.Context()); err != nil || len(names) != 2 {
		t.Errorf("sets %v, error %v", names, err)
	}
	want := []string{"add KUBE-NODE-PORT-TCP 1", "delete KUBE-NODE-PORT-TCP 30080", "destroy KUBE-NODE-PORT-TCP", "create KIPVS-NODE-IP"}
	if len(seen) != len(want) {
		t.Fatalf("saw %q", seen)
	}
	for i := range want {
		if seen[i] != want[i] {
			t.Errorf("saw %q, want %q", seen[i], want[i])
		}
	}
}

func TestMembersAreACopy(t *testing.T) {
	f := filled(t)
	m, err := f.Members(t.Context(), nodePorts.Name)
	if err != nil {
		t.Fatal(err)
	}
	clear(m)
	if got := f.Dump(); got != filled(t).Dump() {
		t.Errorf("changed to %s", got)
	}
}
