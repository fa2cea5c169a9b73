package reconcile

import (
	"testing"
	"testing/synctest"

	"kube-ipvs-proxy/proxier/plan"
)

func TestConvergeAndThenDoNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sample()
		w.settle()
		w.equal()
		if n := w.needless(); n != 0 {
			t.Errorf("%d needless requests", n)
		}
		w.resetCounts()
		if report := w.round(); report.Ops != 0 || len(report.Operations) != 0 || w.requests() != 0 {
			t.Errorf("again: %+v, %d requests", report, w.requests())
		}
	})
}

func TestRestartChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sample()
		w.settle()
		before := w.sets.Dump() // with marks
		w.start()
		if report := w.settle(); report.Ops != 0 {
			t.Errorf("%d operations: %v", report.Ops, w.guard.history)
		}
		w.equal()
		if w.sets.Dump() != before {
			t.Error("marks became others")
		}
	})
}

func TestEverythingGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		list := w.sample()
		w.settle()
		for _, s := range list {
			w.remove(s)
		}
		w.settle()
		w.equal()
		if n := w.needless(); n != 0 {
			t.Errorf("%d needless requests", n)
		}
		if len(w.seen.servers)+len(w.seen.reals)+len(w.seen.bearers)+len(w.drains)+len(w.timeouts)+w.failing.len() != 0 {
			t.Errorf("something is remembered: %+v", w.seen)
		}
	})
}

func TestFirstServiceIsCompleteBeforeTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.sample()
		w.round()
		first := w.services[plan.ServiceName{Namespace: "default", Name: "kubernetes"}]
		want := w.ledger.Claimed(first.Name).Len() + 4 // real servers
		bound := 0
		for i, line := range w.guard.history {
			if line == "bind 10.96.39.15" || line == "bind fd10::270f" {
				bound = i + 1
			}
		}
		if bound != want {
			t.Errorf("bound after %d changes, want %d:\n%v", bound, want, w.guard.history[:bound])
		}
	})
}
