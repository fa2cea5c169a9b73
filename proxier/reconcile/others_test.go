package reconcile

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-ipvs-proxy/ipsetutil"
)

// fakeOthers is another proxy's leftovers; what it is asked goes into the history.
type fakeOthers struct {
	w       *world
	serving bool
	there   bool
	err     error
}

func (f *fakeOthers) Serving(context.Context) (bool, error) { return f.serving, nil }

func (f *fakeOthers) Remove(context.Context) (bool, error) {
	f.w.guard.note("remove others")
	removed := f.there && f.err == nil
	f.there = f.there && f.err != nil
	return removed, f.err
}

// notedRules note when they are written.
type notedRules struct{ w *world }

func (r notedRules) Ensure(ctx context.Context) (bool, error) {
	r.w.guard.note("rules")
	return r.w.rules.Ensure(ctx)
}

// beside is a world whose node another proxy has served.
func beside(t *testing.T, serving bool) (*world, *fakeOthers) {
	w := newWorld(t)
	o := &fakeOthers{w: w, serving: serving, there: true}
	w.Reconciler.doors.Rules, w.Reconciler.doors.Others = notedRules{w}, o
	return w, o
}

// TestOwnStateComesBeforeLeftoversGo: where another proxy's rules serve, ours are written
// after all servers and addresses, else before them; what else is left goes after both,
// once, and nothing that is unwanted goes before.
func TestOwnStateComesBeforeLeftoversGo(t *testing.T) {
	for _, serving := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w, o := beside(t, serving)
			w.sample()
			w.settle()
			w.equal()
			h := w.guard.history
			first := func(prefix string) int {
				return slices.IndexFunc(h, func(line string) bool { return strings.HasPrefix(line, prefix) })
			}
			last := -1
			for i, line := range h {
				if strings.HasPrefix(line, "create") || strings.HasPrefix(line, "bind") || strings.HasPrefix(line, "capture") {
					last = i
				}
			}
			rules, removed := first("rules"), first("remove others")
			if serving != (rules > last) || removed < last || removed < rules || o.there {
				t.Errorf("serving %v: rules at %d, last of ours at %d, others gone at %d (%v)", serving, rules, last, removed, !o.there)
			}
			w.put(newService(77).with(1, 2))
			w.settle()
			if n := len(slices.DeleteFunc(slices.Clone(w.guard.history), func(line string) bool { return line != "remove others" })); n != 1 {
				t.Errorf("leftovers were removed %d times", n)
			}
			if i := slices.Index(w.guard.history, "bind 10.96.0.77"); i < 0 {
				t.Error("a later Service is not served")
			}
		})
	}
}

// TestLeftoversThatStay: a failure is told and tried again, and stops nothing.
func TestLeftoversThatStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := beside(t, true)
		w.sample()
		o.err = errors.New("busy")
		report := w.round()
		w.equal()
		if report.Failures != 1 || report.Pending != 1 || !errors.Is(report.Err(), o.err) {
			t.Errorf("report %+v", report)
		}
		o.err = nil
		w.settle()
		if o.there {
			t.Error("leftovers stay")
		}
	})
}

// TestRulesThatFailBesideAnother: its rules go on serving, nothing of it goes, and all
// is well once ours can be written.
func TestRulesThatFailBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, o := beside(t, true)
		w.sample()
		w.rules.err = errors.New("locked")
		w.round()
		if !o.there {
			t.Error("leftovers went before our rules came")
		}
		w.rules.err = nil
		w.settle()
		w.equal()
		if o.there {
			t.Error("leftovers stay")
		}
	})
}

// TestAddressThatProcessesTalkFrom: another proxy had bound a load balancer's address.
func TestAddressThatProcessesTalkFrom(t *testing.T) {
	for _, c := range []struct {
		name  string
		limit time.Duration
		ends  time.Duration // when the process ends
		stays time.Duration // how long the address stays at least
	}{
		{"not used", 15 * time.Minute, 0, answerTime},
		{"until the process ends", 15 * time.Minute, time.Minute, time.Minute},
		{"until the deadline", 15 * time.Minute, time.Hour, 15 * time.Minute},
		{"no drain", 0, time.Hour, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.config.DrainTimeout = c.limit
				w.start()
				s := newService(5).with(1, 2)
				s.LoadBalancerIPs = addrs("203.0.113.9")
				w.put(s)
				w.settle()
				if err := errors.Join(w.addresses.Bind(t.Context(), s.LoadBalancerIPs)...); err != nil {
					t.Fatal(err)
				}
				w.strange(ipsetutil.Change{Member: ipsetutil.Member{
					Set: ipsetutil.IPVSIPs.Name(false), Entry: ipsetutil.Entry{Addr: s.LoadBalancerIPs[0]},
				}})
				w.start()
				w.addresses.Use(s.LoadBalancerIPs...)
				began := time.Now()
				var gone time.Duration
				for time.Since(began) < 2*time.Hour {
					if time.Since(began) >= c.ends {
						w.addresses.Use()
					}
					report := w.round()
					if report.Failures+report.Pending > 0 {
						t.Fatalf("report %+v", report)
					}
					bound, _ := w.addresses.Bound(t.Context())
					if !slices.Contains(bound, s.LoadBalancerIPs[0]) {
						gone = time.Since(began)
						break
					}
					if left := w.addresses.Left(); !slices.Equal(left, s.LoadBalancerIPs) {
						t.Fatalf("processes go on to take the address: all but %v", left)
					}
					if want := time.Since(began) < answerTime; (report.Leaving == 1) != want {
						t.Fatalf("waits for answers: %d, want %v", report.Leaving, want)
					}
					if report.Draining != 1 || report.RetryIn <= 0 {
						t.Fatalf("nothing waits for the address: %+v", report)
					}
					time.Sleep(report.RetryIn)
				}
				if gone < c.stays || gone > c.stays+longestCheck {
					t.Errorf("gone after %v, want %v", gone, c.stays)
				}
				w.equal()
				if len(w.leaving) > 0 {
					t.Errorf("remembered: %v", w.leaving)
				}
			})
		})
	}
}
