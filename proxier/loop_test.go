package proxier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	setfake "kube-ipvs-proxy/ipsetutil/fake"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/fake"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/reconcile"
	"kube-ipvs-proxy/proxier/watch"
)

// fakeSource is a source whose Services the test changes.
type fakeSource struct {
	mu        sync.Mutex
	changed   chan struct{}
	synced    bool
	services  map[plan.ServiceName]*plan.Service
	endpoints map[plan.ServiceName][]plan.Endpoint
	dirty     map[plan.ServiceName]bool
	revision  string
	node      watch.NodeInfo
	noNode    bool
	// asked counts questions for a Service; bad panics instead of an answer.
	asked map[plan.ServiceName]int
	bad   map[plan.ServiceName]bool
}

func newSource() *fakeSource {
	return &fakeSource{
		changed: make(chan struct{}, 1), synced: true,
		services: map[plan.ServiceName]*plan.Service{}, endpoints: map[plan.ServiceName][]plan.Endpoint{},
		dirty: map[plan.ServiceName]bool{}, asked: map[plan.ServiceName]int{}, bad: map[plan.ServiceName]bool{},
		node: watch.NodeInfo{Name: "n", IPs: []netip.Addr{netip.MustParseAddr("192.0.2.11")}},
	}
}

func (s *fakeSource) Changed() <-chan struct{} { return s.changed }

func (s *fakeSource) Synced() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.synced
}

func (s *fakeSource) Drain() watch.Dirty {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := watch.Dirty{Services: slices.SortedFunc(maps.Keys(s.dirty), compareNames), Revision: s.revision}
	clear(s.dirty)
	s.revision = ""
	return d
}

func (s *fakeSource) Service(name plan.ServiceName) (*plan.Service, []plan.Endpoint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[name]++
	if s.bad[name] {
		panic("broken object")
	}
	return s.services[name], s.endpoints[name]
}

func (s *fakeSource) Names() []plan.ServiceName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.services))
}

func (s *fakeSource) Node() (watch.NodeInfo, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.node, !s.noNode
}

// change changes the source and pokes the loop.
func (s *fakeSource) change(do func()) {
	s.mu.Lock()
	do()
	s.mu.Unlock()
	poke(s.changed)
}

// put changes a Service; pods are its endpoints.
func (s *fakeSource) put(service *plan.Service, pods ...int) {
	s.change(func() {
		var endpoints []plan.Endpoint
		for _, pod := range pods {
			for _, port := range service.Ports {
				endpoints = append(endpoints, plan.Endpoint{
					PortName: port.Name, Protocol: port.Protocol, NodeName: "other", Ready: true, Serving: true,
					Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 244, 0, byte(pod)}), 8080),
				})
			}
		}
		s.services[service.Name], s.endpoints[service.Name] = service, endpoints
		s.dirty[service.Name] = true
	})
}

func (s *fakeSource) remove(name plan.ServiceName) {
	s.change(func() {
		delete(s.services, name)
		delete(s.endpoints, name)
		s.dirty[name] = true
	})
}

// count returns how often a Service was asked for since the last count.
func (s *fakeSource) count(name plan.ServiceName) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.asked[name]
	s.asked[name] = 0
	return n
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// fakeHost has addresses that the test changes.
type fakeHost struct {
	changed, damaged chan struct{}
	unbound          chan []netip.Addr
	mu               sync.Mutex
	addrs            []netip.Addr
	err              error
	listed           int
}

func newHost() *fakeHost {
	return &fakeHost{
		changed: make(chan struct{}, 1), damaged: make(chan struct{}, 1),
		unbound: make(chan []netip.Addr, 1),
		addrs:   []netip.Addr{netip.MustParseAddr("192.0.2.11")},
	}
}

func (h *fakeHost) Addrs(context.Context) ([]netip.Addr, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listed++
	if h.err != nil {
		return nil, h.err
	}
	return slices.Clone(h.addrs), nil
}

func (h *fakeHost) Changed() <-chan struct{} { return h.changed }
func (h *fakeHost) Damaged() <-chan struct{} { return h.damaged }

func (h *fakeHost) Unbound() <-chan []netip.Addr { return h.unbound }

func (h *fakeHost) change(err error, addrs ...string) {
	h.mu.Lock()
	h.err, h.addrs = err, nil
	for _, a := range addrs {
		h.addrs = append(h.addrs, netip.MustParseAddr(a))
	}
	h.mu.Unlock()
	poke(h.changed)
}

// fakeRules are static rules that are always right, but counted.
type fakeRules struct {
	mu      sync.Mutex
	ensured int
}

func (r *fakeRules) Ensure(context.Context) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ensured++
	return false, nil
}

func (r *fakeRules) looks() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ensured
}

// lines is a log that the test reads.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// take returns the lines that contain all words, and forgets everything.
func (l *lines) take(words ...string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []string
	for line := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			found = append(found, strings.TrimSpace(line))
		}
	}
	l.text.Reset()
	return found
}

// loop is a running loop on doubles.
type loop struct {
	*testing.T
	source    *fakeSource
	host      *fakeHost
	ipvs      *fake.IPVS
	sets      *setfake.Fake
	addresses *fake.Addresses
	rules     *fakeRules
	told      chan struct{} // rules changed
	log       *lines
	config    Config
	mu        sync.Mutex
	rounds    []Summary
}

func newLoop(t *testing.T) *loop {
	l := &loop{
		T: t, source: newSource(), host: newHost(), ipvs: fake.NewIPVS(), sets: setfake.New(),
		addresses: fake.NewAddresses(), rules: &fakeRules{}, told: make(chan struct{}, 1), log: &lines{},
	}
	l.config = Config{
		NodeName: "n", MarkBits: 14, RulesChanged: l.told,
		Reconcile: reconcile.Config{DrainTimeout: time.Minute, DrainCheck: time.Second},
		End: func(s Summary) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.rounds = append(l.rounds, s)
		},
	}
	return l
}

func (l *loop) build() *Proxier {
	all := func(addrs, _ []netip.Addr) []netip.Addr { return addrs }
	log := slog.New(slog.NewTextHandler(l.log, nil))
	return New(l.config, l.source, l.host, all, reconcile.Doors{
		IPVS: l.ipvs, Sets: l.sets, Addresses: l.addresses, Rules: l.rules,
	}, log)
}

// taken returns the summaries since the last call.
func (l *loop) taken() []Summary {
	l.mu.Lock()
	defer l.mu.Unlock()
	rounds := l.rounds
	l.rounds = nil
	return rounds
}

// running tests a loop that runs, in a bubble in which waits take no time.
func running(t *testing.T, prepare, test func(l *loop)) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(t)
		if prepare != nil {
			prepare(l)
		}
		l.run(func() { test(l) })
	})
}

// run runs the loop while the test goes on, inside a bubble.
func (l *loop) run(test func()) {
	ctx, stop := context.WithCancel(l.Context())
	done := make(chan error)
	p := l.build()
	go func() { done <- p.Run(ctx) }()
	synctest.Wait()
	test()
	stop()
	if err := <-done; !errors.Is(err, context.Canceled) {
		l.Errorf("ended with %v", err)
	}
}

// after is a new process after l, on the same kernel and source.
func (l *loop) after() *loop {
	n := newLoop(l.T)
	n.ipvs, n.sets, n.addresses, n.source = l.ipvs, l.sets, l.addresses, l.source
	n.ipvs.ResetCounts()
	return n
}

// pass lets the loop work, and time go by.
func (l *loop) pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// has wants lines in the kernel, or not to be there when they begin with "!".
func (l *loop) has(want ...string) {
	l.Helper()
	synctest.Wait()
	dump := l.ipvs.Dump() + l.sets.Dump() + l.addresses.Dump()
	for _, line := range want {
		text, absent := strings.CutPrefix(line, "!")
		if strings.Contains(dump, text+"\n") == absent {
			l.Errorf("want %q in\n%s", line, dump)
		}
	}
}

func service(number int) *plan.Service {
	return &plan.Service{
		Name:       plan.ServiceName{Namespace: "default", Name: fmt.Sprintf("s%d", number)},
		Created:    time.Unix(int64(number), 0),
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(number)})},
		Ports:      []plan.Port{{Name: "http", Protocol: ipvsutil.TCP, Port: 80}},
	}
}

func nodePort(number int, port uint16) *plan.Service {
	s := service(number)
	s.Type = plan.NodePort
	s.Ports[0].NodePort = port
	return s
}
