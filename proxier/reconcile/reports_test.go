package reconcile

import (
	"io/fs"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-ipvs-proxy/ipvsutil/fake"
)

// Tests of faults that were reported of other proxies; the letter and number is that of
// the report.

// After hours a node followed its endpoints no more, since errors added up: one request
// in a hundred fails for a thousand changes.
func TestCaseD13OneInAHundredFailsForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		list := w.sample()
		w.settle()
		w.lies = true
		random := newRandom(t, 13)
		failures := 0
		next := func() error {
			if random.IntN(100) != 0 {
				return nil
			}
			failures++
			return []error{fs.ErrNotExist, fs.ErrExist, syscall.EINVAL}[random.IntN(3)]
		}
		w.ipvs.Fail(func(fake.IPVSRequest) error { return next() })
		w.addresses.Fail(func(fake.AddressRequest) error { return next() })
		w.sets.SetFault(func(string, string) error { return next() })
		for range 1000 {
			w.churn(random, list)
			w.round()
			sleep(100 * time.Millisecond)
		}
		if failures < 20 {
			t.Fatalf("only %d requests failed", failures)
		}
		w.heal()
		w.settle()
		w.equal() // J2: no endpoint is stale, and no restart is needed
	})
}

// churn changes the endpoints of one Service, or takes it away for a while.
func (w *world) churn(random *rand.Rand, list []*service) {
	s := list[random.IntN(len(list))]
	if random.IntN(10) == 0 {
		w.remove(s)
		return
	}
	w.put(s.with(random.Perm(6)[:random.IntN(6)]...))
}

// A server whose lookup failed for a moment was taken for missing, added in vain and then
// deleted: whatever question fails, nothing is deleted.
func TestCaseF2QuestionThatFailsDeletesNothing(t *testing.T) {
	for _, err := range []error{syscall.EINTR, syscall.ENOBUFS} {
		asked := 0
		for n := 1; n == 1 || asked >= n; n++ {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.few()
				w.settle()
				w.start() // asks for everything
				asked = 0
				question := func(is bool) error {
					if is {
						if asked++; asked == n {
							return err
						}
					}
					return nil
				}
				w.ipvs.Fail(func(r fake.IPVSRequest) error { return question(r.Op.Verb == 0) })
				w.sets.SetFault(func(what, _ string) error { return question(what == "list" || what == "names" || what == "members") })
				w.settle()
				for _, line := range w.guard.history {
					if strings.Contains(line, "delete") || strings.Contains(line, "create") {
						t.Errorf("%v of question %d: %s", err, n, line)
					}
				}
				w.heal()
				w.equal()
			})
			if t.Failed() {
				return
			}
		}
		if asked < 10 {
			t.Errorf("only %d questions", asked)
		}
	}
}

// Another program holds the lock of the tables while Services come, and half of the state
// stayed old for half a minute: once the rules can be written they are, within a second,
// and Services that came meanwhile are served before.
func TestCaseG6RulesThatCannotBeWrittenForAWhile(t *testing.T) {
	bubble(t, func(w *world) {
		w.sample()
		w.settle()
		w.rules.err, w.rules.there = errFlows, false
		w.EnsureRules()
		locked := time.Now()
		for n := 0; time.Since(locked) < 8*time.Second; n++ {
			if n < 10 {
				w.put(newService(100 + n).with(n + 1))
			}
			report := w.round()
			if !strings.Contains(w.ipvs.Dump(), "vs 10.96.0.100:80/tcp") {
				t.Error("a new Service waits for the lock")
			}
			if report.RetryIn <= 0 || report.RetryIn > time.Second {
				t.Fatalf("tried again in %v", report.RetryIn)
			}
			sleep(report.RetryIn)
		}
		w.rules.err = nil
		released := time.Now()
		for !w.rules.there {
			sleep(w.round().RetryIn)
		}
		if took := time.Since(released); took > time.Second {
			t.Errorf("the rules are right %v after the lock is free", took)
		}
		w.settle()
		w.equal()
	})
}

// Rules that can never be written are not tried each second for ever.
func TestRulesThatCanNeverBeWritten(t *testing.T) {
	bubble(t, func(w *world) {
		w.sample()
		w.settle()
		w.rules.err = errFlows
		w.EnsureRules()
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); {
			sleep(w.round().RetryIn)
		}
		before := w.rules.ensured
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); {
			sleep(w.round().RetryIn)
		}
		if tries := w.rules.ensured - before; tries < 8 || tries > 15 {
			t.Errorf("%d tries in ten minutes", tries)
		}
	})
}
