package reconcile

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	setfake "kube-ipvs-proxy/ipsetutil/fake"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/fake"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

// world is a node: a kernel made of doubles, Services, and a reconciler between them.
type world struct {
	t         *testing.T
	ipvs      *fake.IPVS
	sets      *setfake.Fake
	addresses *fake.Addresses
	rules     *fakeRules
	flows     *fakeFlows
	guard     *guard

	node     plan.Node
	config   Config
	services map[plan.ServiceName]*service
	ledger   *ledger.Ledger
	touched  ledger.Touched
	// lies: a double said falsely that something was there or was gone. The kernel
	// does not, but another hand can be between two operations.
	lies bool
	*Reconciler
}

// service is a Service with its endpoints.
type service struct {
	plan.Service
	endpoints []plan.Endpoint
}

func newWorld(t *testing.T) *world {
	w := &world{t: t}
	w.doubles()
	w.start()
	return w
}

// doubles makes an empty kernel, and what a world has beside it.
func (w *world) doubles() {
	w.ipvs, w.sets, w.addresses = fake.NewIPVS(), setfake.New(), fake.NewAddresses()
	w.rules, w.flows = &fakeRules{}, &fakeFlows{}
	w.services = map[plan.ServiceName]*service{}
	w.node = plan.Node{
		Name: "n", IPs: addrs("192.0.2.11", "2001:db8::11"),
		Addrs: addrs("192.0.2.11", "2001:db8::11"), NodePortAddrs: addrs("192.0.2.11", "2001:db8::11"),
	}
	w.config = Config{
		DrainTimeout: 15 * time.Minute, DrainCheck: 2 * time.Second,
		SyncPeriod: -1, RefreshPeriod: -1,
		First: plan.ServiceName{Namespace: "default", Name: "kubernetes"},
	}
}

// start is a new process on the same kernel.
func (w *world) start() {
	w.t.Helper()
	w.ledger = ledger.New(0, 14)
	w.guard = newGuard(w)
	w.Reconciler = New(Doors{
		IPVS: guardedIPVS{w.ipvs, w.guard}, Sets: guardedSets{w.sets, w.guard},
		Addresses: guardedAddresses{w.addresses, w.guard}, Rules: w.rules, Flows: w.flows,
	}, w.ledger, w.config)
	for _, ipv6 := range []bool{false, true} {
		if entries, err := w.sets.Members(w.t.Context(), ipsetutil.ShortCircuit.Name(ipv6)); err == nil {
			w.ledger.AdoptMarks(ipv6, entries)
		}
	}
	w.touched = w.ledger.Replace(ledger.Owner{}, plan.ForNode(w.node))
	for _, s := range w.services {
		w.plan(s)
	}
	w.ledger.ForgetAdopted()
}

// plan records what a Service claims now.
func (w *world) plan(s *service) {
	claims, _ := plan.For(&s.Service, s.endpoints, w.node, plan.Config{})
	w.touched.Merge(w.ledger.Replace(ledger.Owner{Name: s.Name, Created: s.Created}, claims))
}

func (w *world) put(s *service) *service {
	w.services[s.Name] = s
	w.plan(s)
	return s
}

func (w *world) remove(s *service) {
	delete(w.services, s.Name)
	w.touched.Merge(w.ledger.Remove(s.Name))
}

// round brings what was planned to the kernel.
func (w *world) round() Report {
	touched := w.touched
	w.touched = ledger.Touched{}
	return w.Round(w.t.Context(), touched)
}

// settle makes rounds until nothing is pending and all drains have ended; in a
// bubble of synctest the waits take no time.
func (w *world) settle() Report {
	w.t.Helper()
	var report Report
	for range 200 {
		if report = w.round(); report.Pending+report.Failures+report.Draining+report.Lingering == 0 {
			return report
		}
		time.Sleep(report.RetryIn)
	}
	w.t.Logf("failing %+v\nwaiting %+v\npending %+v\ndoubts %+v rules %+v", w.failing, w.waiting, w.pending, w.doubts, w.Reconciler.rules)
	w.t.Fatalf("does not settle: %d pending, %d draining, %v", report.Pending, report.Draining, report.Err())
	return report
}

// equal wants the kernel to hold what is desired, and what else is given (lines of
// the dump language), and nothing more.
func (w *world) equal(more ...string) {
	w.t.Helper()
	if d := difference(w.want(more...), w.dump()); d != "" {
		w.t.Fatalf("the kernel (+) differs from the plan (-):\n%s", d)
	}
}

func (w *world) want(more ...string) string {
	lines := strings.Split(w.ledger.Dump(), "\n")
	return sortedLines(append(lines, more...))
}

func (w *world) dump() string {
	var lines []string
	for line := range strings.Lines(w.ipvs.Dump() + w.sets.Dump() + w.addresses.Dump()) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), " mark ")
		lines = append(lines, line)
	}
	return sortedLines(lines)
}

func sortedLines(lines []string) string {
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// difference shows the lines that only one of two sorted texts has.
func difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	var out []string
	for _, line := range a {
		if _, ok := slices.BinarySearch(b, line); !ok {
			out = append(out, "- "+line)
		}
	}
	for _, line := range b {
		if _, ok := slices.BinarySearch(a, line); !ok {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}

// needless is how much the kernel was asked for that it had.
func (w *world) needless() int {
	return w.ipvs.Counts().Needless + w.sets.Counts().Needless + w.addresses.Counts().Needless
}

// changes is how often the kernel was asked to change something.
func (w *world) requests() int {
	a := w.addresses.Counts()
	i := w.ipvs.Counts()
	return i.Total() + i.ListVirtual + i.ListReal + w.sets.Counts().Requests +
		a.Bind + a.Unbind + a.Capture + a.Release + a.List + a.Ensure
}

func (w *world) resetCounts() {
	w.ipvs.ResetCounts()
	w.sets.ResetCounts()
	w.addresses.ResetCounts()
}

// fakeRules counts its calls, and fails on demand.
type fakeRules struct {
	ensured int
	there   bool
	err     error
	fault   func() error // nil: none
}

func (f *fakeRules) Ensure(context.Context) (bool, error) {
	f.ensured++
	if f.err != nil {
		return false, f.err
	}
	if f.fault != nil {
		if err := f.fault(); err != nil {
			return false, err
		}
	}
	changed := !f.there
	f.there = true
	return changed, nil
}

// fakeFlows remembers what it was asked to delete.
type fakeFlows struct {
	deleted []ipvsutil.StaleFlow
	err     error
	fault   func() error // nil: none
}

func (f *fakeFlows) DeleteFlows(_ context.Context, stale []ipvsutil.StaleFlow) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	if f.fault != nil {
		if err := f.fault(); err != nil {
			return 0, err
		}
	}
	f.deleted = append(f.deleted, stale...)
	return len(stale), nil
}

// take returns the flows deleted so far and forgets them.
func (f *fakeFlows) take() string {
	var b strings.Builder
	for _, s := range f.deleted {
		real := "any"
		if s.Real.IsValid() {
			real = s.Real.String()
		}
		fmt.Fprintf(&b, "%s %s\n", s.Frontend, real)
	}
	f.deleted = nil
	return b.String()
}

func addrs(texts ...string) []netip.Addr {
	list := make([]netip.Addr, len(texts))
	for i, text := range texts {
		list[i] = netip.MustParseAddr(text)
	}
	return list
}

func key(addr string, p ipvsutil.Protocol) ipvsutil.Key {
	return ipvsutil.Key{Addr: netip.MustParseAddrPort(addr), Protocol: p}
}
