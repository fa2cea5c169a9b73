package reconcile

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/fake"
)

// faults are the ways in which the n-th request can fail.
var faults = map[string]error{
	"EINTR": syscall.EINTR, "ENOBUFS": syscall.ENOBUFS, "ENOMEM": syscall.ENOMEM, "EBUSY": syscall.EBUSY,
	"EEXIST":    fs.ErrExist,
	"ESRCH":     ipvsutil.DeleteRealServer.Refusal(syscall.ESRCH),
	"ENOENT":    fs.ErrNotExist,
	"EPERM":     syscall.EPERM,
	"ENOSPC":    syscall.ENOSPC,
	"no answer": ipvsutil.ErrUnknownOutcome,
	"strange":   errors.New("something else"),
}

// failNth lets the n-th request of any door fail, counted over all doors.
func (w *world) failNth(n int, err error) (left *int) {
	next := func() error {
		if n--; n == 0 {
			return err
		}
		return nil
	}
	w.ipvs.Fail(func(fake.IPVSRequest) error { return next() })
	w.addresses.Fail(func(fake.AddressRequest) error { return next() })
	w.sets.SetFault(func(string, string) error { return next() })
	w.rules.fault, w.flows.fault = next, next
	w.lies = errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist)
	return &n
}

func (w *world) heal() {
	w.ipvs.Fail(nil)
	w.addresses.Fail(nil)
	w.sets.SetFault(nil)
	w.rules.fault, w.flows.fault = nil, nil
}

// scenes are runs in each of which every request fails once.
var scenes = map[string]func(w *world) func(){
	"start": func(w *world) func() {
		w.few()
		return func() {}
	},
	"restart": func(w *world) func() {
		w.few()
		w.settle()
		return w.start
	},
	"change": func(w *world) func() {
		list := w.few()
		w.settle()
		return func() {
			for i, s := range list {
				switch i % 3 {
				case 0:
					w.remove(s)
				case 1:
					w.put(s.with(100+i, 200+i))
				default:
					s.ExternalLocal, s.InternalLocal = !s.ExternalLocal, !s.InternalLocal
					w.put(s)
				}
			}
		}
	},
	"refresh": func(w *world) func() {
		w.few()
		w.settle()
		w.ipvs.Remove(key("10.96.0.3:80", ipvsutil.TCP))
		return w.Doubt
	},
}

func TestEveryRequestFailsOnce(t *testing.T) {
	for scene, prepare := range scenes {
		for name, err := range faults {
			t.Run(scene+"/"+name, func(t *testing.T) {
				for n := 1; ; n++ {
					if !runWithFault(t, prepare, n, err) {
						if n < 20 {
							t.Fatalf("the run has only %d requests", n)
						}
						return
					}
				}
			})
		}
	}
}

// runWithFault reports whether there was an n-th request.
func runWithFault(t *testing.T, prepare func(w *world) func(), n int, err error) (failed bool) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		prepare(w)()
		left := w.failNth(n, err)
		w.settle()
		failed = *left <= 0
		w.heal()
		w.equal()
		if t.Failed() {
			t.Fatalf("request %d failed with %v", n, err)
		}
	})
	return failed
}

func TestAnswersGetLost(t *testing.T) {
	for scene, prepare := range scenes {
		t.Run(scene, func(t *testing.T) {
			lost := true
			for n := 1; lost; n++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					prepare(w)()
					w.ipvs.LoseNth(n)
					w.settle()
					w.equal()
					lost = w.ipvs.Counts().Failed > 0
				})
			}
		})
	}
}

// One request in ten fails, for long, and then none.
func TestManyRequestsFail(t *testing.T) {
	for seed := range 20 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.sample()
				w.lies = true
				random := newRandom(t, uint64(seed))
				kinds := make([]error, 0, len(faults))
				for _, err := range faults {
					kinds = append(kinds, err)
				}
				next := func() error {
					if random.IntN(10) == 0 {
						return kinds[random.IntN(len(kinds))]
					}
					return nil
				}
				w.ipvs.Fail(func(fake.IPVSRequest) error { return next() })
				w.addresses.Fail(func(fake.AddressRequest) error { return next() })
				w.sets.SetFault(func(string, string) error { return next() })
				w.rules.fault, w.flows.fault = next, next
				for range 40 {
					sleep(w.round().RetryIn)
				}
				w.heal()
				w.settle()
				w.equal()
			})
		})
	}
}

// A Service that the kernel refuses for ever leaves all others alone.
func TestOneFailsForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sample()
		bad := key("10.96.0.2:53", ipvsutil.UDP)
		w.ipvs.Fail(func(r fake.IPVSRequest) error {
			if r.Op.Server.Key == bad {
				return syscall.EINVAL
			}
			return nil
		})
		report := w.round()
		if report.Pending == 0 || report.Classes[classInvalid] == 0 {
			t.Errorf("not told: %+v", report)
		}
		want := []string{"set KIPVS-REFUSE 10.96.0.2,udp:53"} // not led to the host's own port
		for line := range strings.Lines(w.want()) {
			if line = strings.TrimSpace(line); !strings.Contains(line, bad.String()) {
				want = append(want, line)
			}
		}
		if d := difference(sortedLines(want), w.dump()); d != "" {
			t.Errorf("others suffer:\n%s", d)
		}
		before := len(w.guard.history)
		w.put(newService(77).with(77))
		if report := w.round(); report.Failures != 0 {
			t.Errorf("the change of another Service fails: %v", report.Err())
		}
		for _, line := range w.guard.history[before:] {
			if strings.Contains(line, bad.String()) {
				t.Errorf("before its time: %s", line)
			}
		}
		var waits []int
		for range 12 {
			report := w.round()
			waits = append(waits, int(report.RetryIn.Seconds()))
			sleep(report.RetryIn)
		}
		if last := waits[len(waits)-1]; last < 45 || last > 60 {
			t.Errorf("waits of %v seconds, want up to 60", waits)
		}
		w.put(newService(2).dns().with(20, 21, 23)) // a change begins anew
		if wait := w.round().RetryIn; wait > firstRetry {
			t.Errorf("waits %v after a change", wait)
		}
		w.ipvs.Fail(nil)
		w.put(newService(2).dns().with(20, 21, 22)) // and is tried at once
		if report := w.round(); report.Pending != 0 {
			t.Errorf("%d pending", report.Pending)
		}
		w.settle()
		w.equal()
	})
}
