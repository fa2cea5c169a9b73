package reconcile

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

// measure returns the requests of one changed endpoint among n Services, and the
// allocations of its round.
func measure(t *testing.T, n int) (requests int, allocs float64) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.Reconciler.doors = Doors{IPVS: w.ipvs, Sets: w.sets, Addresses: w.addresses, Rules: w.rules, Flows: w.flows}
		w.put(kubernetes())
		for i := range n {
			s := newService(i).with(2*i, 2*i+1)
			s.ClusterIPs = s.ClusterIPs[:1]
			w.put(s)
		}
		w.settle()
		s := newService(0)
		s.ClusterIPs = s.ClusterIPs[:1]
		w.put(s.with(30000, 1))
		w.settle()
		w.resetCounts()
		pod := 30000
		allocs = testing.AllocsPerRun(20, func() {
			pod++
			w.put(s.with(pod, 1))
			if report := w.round(); report.Pending != 0 {
				t.Fatal(report.Err())
			}
		})
		requests = w.requests()
	})
	return requests, allocs
}

func TestCostOfAChangeIsThatOfTheChange(t *testing.T) {
	sizes := []int{1000, 10000}
	if testing.Short() {
		sizes = []int{100, 1000}
	}
	requests, allocs := measure(t, 10)
	for _, n := range sizes {
		r, a := measure(t, n)
		if r != requests {
			t.Errorf("%d Services: %d requests, with 10 there were %d", n, r, requests)
		}
		if a > allocs*1.1+2 {
			t.Errorf("%d Services: %v allocations, with 10 there were %v", n, a, allocs)
		}
	}
	t.Logf("%d requests in 21 changes, %v allocations each", requests, allocs)
}

// At rest nothing is written, and reading is spread evenly.
func TestRefreshIsSpread(t *testing.T) {
	refreshing(t, func(w *world) {
		for i := range 1500 {
			s := newService(i).with(i)
			s.ClusterIPs = s.ClusterIPs[:1]
			w.put(s)
		}
		w.settle()
		w.resetCounts()
		most, rounds := 0, 0
		for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); rounds++ {
			before := w.ipvs.Counts().ListReal
			report := w.round()
			if report.Ops != 0 {
				t.Fatal(report.Operations)
			}
			most = max(most, w.ipvs.Counts().ListReal-before)
			time.Sleep(report.RetryIn)
		}
		if most > 10 {
			t.Errorf("%d servers read at once", most)
		}
		glances := int(10 * time.Minute / glancePeriod)
		if n := w.ipvs.Counts().ListReal - glances; n < 1450 || n > 1550 {
			t.Errorf("%d servers read in a period, want all 1500 once", n)
		}
		if n := w.ipvs.Counts().ListVirtual; n < 19 || n > 21 {
			t.Errorf("%d listings in ten minutes", n)
		}
		if rounds > 640+glances {
			t.Errorf("%d rounds in ten minutes", rounds)
		}
	})
}

// Churn leaves nothing behind.
func TestMemoryAfterChurn(t *testing.T) {
	bubble(t, func(w *world) {
		w.sample()
		w.settle()
		size := func() [12]int {
			members := 0
			for _, of := range w.seen.members {
				members += len(of)
			}
			return [12]int{
				members, len(w.seen.servers), len(w.seen.reals), len(w.seen.bound), len(w.seen.captured),
				len(w.seen.bearers), len(w.drains), len(w.lingers.servers), len(w.lingers.members),
				len(w.timeouts) + len(w.shielded), w.failing.len() + w.waiting.Len() + w.pending.Len(), len(w.stale.flows),
			}
		}
		before := size()
		for i := range 200 {
			s := newService(100+i).dns().loadBalancer(100+i%100).nodePort(uint16(31000+i)).with(i, i+1, i+2)
			s.ExternalLocal = i%2 == 0
			w.put(s)
			w.round()
			w.put(s.with(i + 1))
			w.round()
			w.remove(s)
			w.round()
		}
		w.settle()
		w.equal()
		if after := size(); after != before {
			t.Errorf("was %v, is %v", before, after)
		}
	})
}

// TestCaseI4ObservationsLeaveNothing (kubernetes/kubernetes#46580): to read and compare
// all of the kernel again and again takes no more memory than once.
func TestCaseI4ObservationsLeaveNothing(t *testing.T) {
	bubble(t, func(w *world) {
		for i := range 500 {
			s := newService(i)
			s.ClusterIPs = s.ClusterIPs[:1]
			pods := make([]int, 20)
			for p := range pods {
				pods[p] = 20*i + p
			}
			w.put(s.with(pods...))
		}
		w.settle()
		observe := func() {
			w.Doubt()
			if report := w.round(); report.Pending != 0 || report.Operations[Operation{"real_server", "list"}].Succeeded != 500 {
				t.Fatalf("not all was read: %+v", report.Operations)
			}
		}
		observe()
		before := heap()
		for range 10 {
			observe()
		}
		if after := heap(); after > before+before/20 {
			t.Errorf("ten more readings of all: %d KiB in use, %d KiB before", after>>10, before>>10)
		}
		runtime.KeepAlive(w)
	})
}

// heap is the memory in use.
func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
