package reconcile

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
)

// Operation is a kind of object ("virtual_server", "real_server", "member", "set",
// "address", "route", "rules", "flow", "device") and what was done to it ("create",
// "update", "delete", "drain", "ensure", "grow", "replace", "list").
type Operation struct{ Kind, Verb string }

// Tally counts operations that succeeded and that failed.
type Tally struct{ Succeeded, Failed int }

// Report is what a round did and what it left.
type Report struct {
	// Ops counts the changes that the kernel was asked for; listings are none.
	Ops int
	// Operations counts all that the kernel was asked for, listings too.
	Operations map[Operation]Tally
	// Failed holds the first errors, at most maxErrors; Failures counts all, Classes
	// by class: "busy", "exists", "full", "interrupted", "invalid", "missing",
	// "permission", "scheduler", "timeout" or "other".
	Failed   []error
	Failures int
	Classes  map[string]int
	// Repairs counts, by kind of object, what others had changed or removed and was
	// put right in this round; Repaired names the first of them.
	Repairs  map[string]int
	Repaired []string
	// Grown are the sets that were made bigger.
	Grown []Growth
	// Flows counts the stale conntrack flows that were removed.
	Flows int
	// Pending counts keys that are not yet right in the kernel; Oldest is for how
	// long the oldest of them has failed.
	Pending int
	Oldest  time.Duration
	// Draining counts real servers that wait for their connections to end, Lingering
	// the virtual servers that wait for that and that nobody claims any more.
	Draining, Lingering int
	// Leaving counts the addresses that are about to be unbound and wait for answers.
	Leaving int
	// RetryIn is the time until the next round should run; zero when nothing waits.
	RetryIn time.Duration
}

// maxErrors bounds a report: a thousand failures of one kind say no more than ten.
const maxErrors = 10

// count takes down one operation.
func (r *Report) count(kind, verb string, err error) {
	if err == nil {
		r.add(Operation{kind, verb}, Tally{Succeeded: 1})
		return
	}
	r.add(Operation{kind, verb}, Tally{Failed: 1})
	r.fail(err)
}

// add takes down operations of one kind.
func (r *Report) add(op Operation, more Tally) {
	if r.Operations == nil {
		r.Operations = map[Operation]Tally{}
	}
	tally := r.Operations[op]
	tally.Succeeded += more.Succeeded
	tally.Failed += more.Failed
	r.Operations[op] = tally
	if op.Verb != "list" && op.Kind != "device" {
		r.Ops += more.Succeeded + more.Failed
	}
}

// streak takes down operations that succeeded, those of one kind in a row at once: at
// the start there are as many as there are endpoints.
type streak struct {
	report *Report
	op     Operation
	n      int
}

func (s *streak) add(op Operation) {
	if op != s.op {
		s.end()
		s.op = op
	}
	s.n++
}

func (s *streak) end() {
	if s.n > 0 {
		s.report.add(s.op, Tally{Succeeded: s.n})
	}
	s.n = 0
}

// operationOf says what an operation of IPVS is.
func operationOf(op ipvsutil.Op) Operation {
	kind, verb := "virtual_server", "create"
	switch op.Verb {
	case ipvsutil.UpdateVirtualServer:
		verb = "update"
	case ipvsutil.DeleteVirtualServer:
		verb = "delete"
	case ipvsutil.CreateRealServer:
		kind = "real_server"
	case ipvsutil.UpdateRealServer:
		kind, verb = "real_server", "update"
		if op.Real.Weight == 0 {
			verb = "drain"
		}
	case ipvsutil.DeleteRealServer:
		kind, verb = "real_server", "delete"
	}
	return Operation{kind, verb}
}

func (r *Report) fail(err error) {
	r.Failures++
	if r.Classes == nil {
		r.Classes = map[string]int{}
	}
	r.Classes[classify(err)]++
	if len(r.Failed) < maxErrors {
		r.Failed = append(r.Failed, err)
	}
}

func (r *Report) repaired(kind, name string) {
	if r.Repairs == nil {
		r.Repairs = map[string]int{}
	}
	r.Repairs[kind]++
	if len(r.Repaired) < maxErrors {
		r.Repaired = append(r.Repaired, kind+" "+name)
	}
}

// Err joins the failures, or is nil.
func (r Report) Err() error {
	if r.Failures == 0 {
		return nil
	}
	errs := r.Failed
	if more := r.Failures - len(errs); more > 0 {
		errs = append(errs[:len(errs):len(errs)], fmt.Errorf("and %d more", more))
	}
	return errors.Join(errs...)
}

// damage is what others did and is not yet put right.
type damage struct {
	ledger.Touched
	// reals are the virtual servers whose real servers were changed.
	reals map[ipvsutil.Key]struct{}
}

// settle reports the damage that this round has put right.
func (d *damage) settle(report *Report, work, failed, waiting ledger.Touched) {
	mend(report, "virtual_server", d.Servers, work.Servers, failed.Servers, waiting.Servers, ipvsutil.Key.String)
	mend(report, "real_server", d.reals, work.Servers, failed.Servers, waiting.Servers,
		func(key ipvsutil.Key) string { return "of " + key.String() })
	mend(report, "member", d.Members, work.Members, failed.Members, waiting.Members, ipsetutil.Member.String)
	mend(report, "address", d.Bound, work.Bound, failed.Bound, waiting.Bound, netip.Addr.String)
	mend(report, "route", d.Captured, work.Captured, failed.Captured, waiting.Captured, netip.Addr.String)
}

func mend[K comparable](report *Report, kind string, damaged, work, failed, waiting map[K]struct{}, name func(K) string) {
	for key := range damaged {
		if has(work, key) && !has(failed, key) && !has(waiting, key) {
			delete(damaged, key)
			report.repaired(kind, name(key))
		}
	}
}

// waitingRetry is the longest time that keys wait which wait for others.
const waitingRetry = time.Second

// finish counts what is left and when to come again.
func (r *Reconciler) finish(report *Report) Report {
	times := r.nextTimes()
	times.next(r.refresh.glanceAt)
	report.Pending = r.failing.len() + r.waiting.Len() + r.pending.Len()
	for _, retry := range []attempt{r.doubts.retry, r.rules.retry, r.stale.retry, r.others.retry} {
		if retry.failures > 0 {
			report.Pending++
			times.next(retry.at)
			times.since(retry.since)
		}
	}
	if r.doubts.any() && r.doubts.retry.failures == 0 || r.pending.Len() > 0 && r.known {
		times.next(time.Now())
	}
	now := time.Now()
	if r.waiting.Len() > 0 {
		times.next(now.Add(waitingRetry))
	}
	if !times.oldest.IsZero() {
		report.Oldest = now.Sub(times.oldest)
	}
	if !times.at.IsZero() {
		report.RetryIn = max(times.at.Sub(now), time.Millisecond)
	}
	report.Leaving = r.leaving.waiting(time.Now())
	report.Draining, report.Lingering = r.drains.len()+len(r.leaving), len(r.lingers.servers)
	r.settled = r.settled || report.Pending == 0
	r.rests = r.known && report.Pending == 0 && !r.doubts.any()
	return *report
}

// nextTimes finds when something is to be done that waits for its time, glances aside.
func (r *Reconciler) nextTimes() *times {
	times := &times{}
	r.failing.next(times)
	r.drains.next(times)
	r.leaving.next(times)
	r.refresh.next(times)
	times.next(r.rules.lookAt)
	return times
}
