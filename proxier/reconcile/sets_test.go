package reconcile

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/ipsetutil"
)

// keepingSets fails the test when an entry is missing, after any request, that was
// there and nobody deleted.
type keepingSets struct {
	guardedSets
	t    *testing.T
	have map[ipsetutil.Member]bool
}

func (k keepingSets) look() {
	k.t.Helper()
	dump := k.Dump() // which no fault hides
	for m := range k.have {
		if !strings.Contains(dump, "set "+m.String()+"\n") && !strings.Contains(dump, "set "+m.String()+" mark ") {
			k.t.Fatalf("%v is missing for a moment", m)
		}
	}
}

func (k keepingSets) Do(ctx context.Context, changes []ipsetutil.Change) []error {
	errs := k.guardedSets.Do(ctx, changes)
	for i, c := range changes {
		switch {
		case c.Member.Set == ipsetutil.Spare || errs != nil && errs[i] != nil:
		case c.Delete:
			delete(k.have, c.Member)
		default:
			k.have[c.Member] = true
		}
	}
	k.look()
	return errs
}

func (k keepingSets) Create(ctx context.Context, s ipsetutil.Set) error {
	defer k.look()
	return k.Fake.Create(ctx, s)
}

func (k keepingSets) Swap(ctx context.Context, a, b string) error {
	defer k.look()
	return k.Fake.Swap(ctx, a, b)
}

func (k keepingSets) Destroy(ctx context.Context, name string) error {
	defer k.look()
	return k.guardedSets.Destroy(ctx, name)
}

// small is a world whose sets begin with eight entries.
func small(t *testing.T, test func(w *world)) {
	bubble(t, func(w *world) {
		w.config.SetSize = 8
		w.start()
		w.doors.Sets = keepingSets{w.doors.Sets.(guardedSets), t, map[ipsetutil.Member]bool{}}
		test(w)
	})
}

func (w *world) header(name string) ipsetutil.Header {
	w.t.Helper()
	headers, err := w.sets.Headers(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return headers[name]
}

// Services come one by one and many at once; no entry is ever missing meanwhile. What
// has grown is adopted by the next process, which writes nothing.
func TestCaseG1SetsGrow(t *testing.T) {
	small(t, func(w *world) {
		name := ipsetutil.ClusterIP.Name(false)
		var grown []Growth
		for i := range 40 {
			w.put(newService(i).with(2*i, 2*i+1))
			if i%3 == 0 {
				report := w.round()
				grown = append(grown, report.Grown...)
			}
		}
		w.settle()
		w.equal()
		if h := w.header(name); h.Set.MaxElem != 64 || h.Entries != 40 {
			t.Errorf("the set is %+v, want room for 64 and 40 entries", h)
		}
		var steps []string
		for _, g := range grown {
			if g.Set == name {
				steps = append(steps, fmt.Sprint(g.From, ">", g.To))
			}
		}
		if got := strings.Join(steps, " "); got != "8>16 16>32 32>64" {
			t.Errorf("it grew %s", got)
		}
		if names, _ := w.sets.Names(t.Context()); len(names) != len(ipsetutil.All()) {
			t.Errorf("sets are left: %v", names)
		}
		if w.Reconciler.SetSizes()[name] != 64 {
			t.Errorf("sizes %v", w.Reconciler.SetSizes())
		}
		w.start()
		w.resetCounts()
		w.settle()
		if report := w.round(); report.Ops != 0 || w.Reconciler.SetSizes()[name] != 64 {
			t.Errorf("a second process: %+v, sizes %v", report.Operations, w.Reconciler.SetSizes())
		}
		w.put(newService(900).with(1))
		if w.settle(); w.header(name).Set.MaxElem != 64 {
			t.Error("an adopted set shrank")
		}
	})
}

// Whatever request fails while sets grow, all is right in the end, and nothing was
// missing meanwhile.
func TestGrowingFails(t *testing.T) {
	for n := 1; n <= 60; n++ {
		small(t, func(w *world) {
			for i := range 6 {
				w.put(newService(i).with(i))
			}
			w.settle()
			for i := range 6 {
				w.put(newService(10 + i).with(i))
			}
			err := ipsetutil.ErrBusy
			if n%2 == 0 {
				err = context.DeadlineExceeded
			}
			w.sets.FailNth(n, err)
			w.settle()
			w.Doubt() // a spare that could not be destroyed goes with the next look
			w.settle()
			w.equal()
			if h := w.header(ipsetutil.ClusterIP.Name(false)); h.Set.MaxElem != 16 {
				t.Errorf("request %d fails: %+v", n, h)
			}
		})
	}
}

// A set that can't grow takes what it can, the rest is tried again.
func TestGrowingNeverWorks(t *testing.T) {
	small(t, func(w *world) {
		w.sets.SetFault(func(op, object string) error {
			if op == "create" && object == ipsetutil.Spare {
				return errors.New("no memory")
			}
			return nil
		})
		for i := range 12 {
			w.put(newService(i).with(i))
		}
		report := w.round()
		if report.Classes[classFull] == 0 || w.header(ipsetutil.ClusterIP.Name(false)).Entries != 8 {
			t.Errorf("%v, the set has %+v", report.Classes, w.header(ipsetutil.ClusterIP.Name(false)))
		}
		w.sets.SetFault(nil)
		time.Sleep(report.RetryIn)
		w.settle()
		w.equal()
	})
}

// Sets with our names and other parameters, which somebody left.
func TestSetsOfOthersAreMended(t *testing.T) {
	cluster, refuse, mark := ipsetutil.ClusterIP.For(false), ipsetutil.Refuse.For(true), ipsetutil.ShortCircuit.For(false)
	for name, other := range map[string]ipsetutil.Set{
		"too small":      {Name: cluster.Name, Type: cluster.Type, Family: cluster.Family, MaxElem: 2},
		"with marks":     {Name: cluster.Name, Type: cluster.Type, Family: cluster.Family, MaxElem: 65536, Marks: true},
		"without marks":  {Name: mark.Name, Type: mark.Type, Family: mark.Family, MaxElem: 65536},
		"another type":   {Name: cluster.Name, Type: ipsetutil.HashIP, Family: cluster.Family, MaxElem: 65536},
		"another family": {Name: refuse.Name, Type: refuse.Type, Family: ipsetutil.IPv4, MaxElem: 65536},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				if err := w.sets.Create(t.Context(), other); err != nil {
					t.Fatal(err)
				}
				want, _ := ipsetutil.ByName(other.Name)
				if (ipsetutil.Header{Set: other}).Swappable(want) {
					w.sets.Refer(other.Name, true) // which does not hinder
				}
				w.sample()
				w.settle()
				w.equal()
				if h := w.header(other.Name); h.Set != want {
					t.Errorf("it is %+v", h)
				}
			})
		})
	}
}

// A set of another type that somebody's rule uses can't be mended: it is said by name,
// no server is made whose entry it should hold, and all others are. Once the rule is
// gone all is right.
func TestSetOfAnotherTypeInUse(t *testing.T) {
	bubble(t, func(w *world) {
		other := ipsetutil.Set{Name: ipsetutil.ClusterIP.Name(false), Type: ipsetutil.HashIP, Family: ipsetutil.IPv4, MaxElem: 65536}
		if err := w.sets.Create(t.Context(), other); err != nil {
			t.Fatal(err)
		}
		w.sets.Refer(other.Name, true)
		w.sample()
		report := w.round()
		if err := report.Err(); err == nil || !strings.Contains(err.Error(), "destroy KUBE-CLUSTER-IP: set is in use by a rule, and it is a hash:ip inet where a hash:ip,port inet is needed") {
			t.Errorf("said: %v", err)
		}
		dump := w.ipvs.Dump()
		if strings.Contains(dump, "vs 10.96.") || !strings.Contains(dump, "vs [fd10::") {
			t.Errorf("servers:\n%s", dump)
		}
		w.sets.Refer(other.Name, false)
		time.Sleep(time.Minute)
		w.settle()
		w.equal()
	})
}
