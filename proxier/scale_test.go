package proxier

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/reconcile"
	"kube-ipvs-proxy/proxier/watch"
)

// blank is a kernel that takes everything and remembers nothing: what is left of the
// cost of a round is ours.
type blank struct{ requests *int }

func (b blank) Do(context.Context, []ipvsutil.Op) []error {
	*b.requests++
	return nil
}

func (blank) VirtualServers(context.Context) ([]ipvsutil.VirtualServer, error) { return nil, nil }

func (blank) RealServers(context.Context, ipvsutil.Key) ([]ipvsutil.RealServerState, error) {
	return nil, nil
}

func (blank) Ensure(context.Context) error                                   { return nil }
func (blank) Bind(context.Context, []netip.Addr) []error                     { return nil }
func (blank) Unbind(context.Context, []netip.Addr) []error                   { return nil }
func (blank) Leave(context.Context, []netip.Addr) []error                    { return nil }
func (blank) Bound(context.Context) ([]netip.Addr, error)                    { return nil, nil }
func (blank) Capture(context.Context, []netip.Addr) []error                  { return nil }
func (blank) Release(context.Context, []netip.Addr) []error                  { return nil }
func (blank) Captured(context.Context) ([]netip.Addr, error)                 { return nil, nil }
func (blank) InUse(context.Context, []netip.Addr) ([]netip.Addr, error)      { return nil, nil }
func (blank) DeleteFlows(context.Context, []ipvsutil.StaleFlow) (int, error) { return 0, nil }

type blankSets struct{ requests *int }

func (blankSets) Create(context.Context, ipsetutil.Set) error { return nil }
func (blankSets) Names(context.Context) ([]string, error)     { return nil, nil }
func (blankSets) Swap(context.Context, string, string) error  { return nil }
func (blankSets) Destroy(context.Context, string) error       { return nil }

func (blankSets) Headers(context.Context) (map[string]ipsetutil.Header, error) { return nil, nil }

func (blankSets) Header(context.Context, string) (h ipsetutil.Header, err error) { return h, nil }
func (blankSets) Holds(context.Context, []ipsetutil.Member) (bool, error)        { return true, nil }

func (blankSets) Members(context.Context, string) (map[ipsetutil.Entry]uint32, error) {
	return nil, nil
}

func (s blankSets) Do(context.Context, []ipsetutil.Change) []error {
	*s.requests++
	return nil
}

type blankRules struct{}

func (blankRules) Ensure(context.Context) (bool, error) { return false, nil }

// crowd is a source of many Services that are made when they are asked for, so that it
// takes no memory. One of them changes.
type crowd struct {
	services, endpoints int
	dirty               watch.Dirty
	turn                int
}

func (*crowd) Changed() <-chan struct{}     { return nil }
func (*crowd) Damaged() <-chan struct{}     { return nil }
func (*crowd) Unbound() <-chan []netip.Addr { return nil }
func (*crowd) Synced() bool                 { return true }

func (*crowd) Addrs(context.Context) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("192.0.2.11")}, nil
}

func (*crowd) Node() (watch.NodeInfo, bool) { return watch.NodeInfo{Name: "n"}, true }

func (c *crowd) Drain() watch.Dirty {
	d := c.dirty
	c.dirty = watch.Dirty{}
	return d
}

func crowdName(i int) plan.ServiceName {
	return plan.ServiceName{Namespace: "crowd", Name: fmt.Sprintf("service-%06d", i)}
}

func (c *crowd) Names() []plan.ServiceName {
	names := make([]plan.ServiceName, c.services)
	for i := range names {
		names[i] = crowdName(i)
	}
	return names
}

func (c *crowd) Service(name plan.ServiceName) (*plan.Service, []plan.Endpoint) {
	var i int
	if _, err := fmt.Sscanf(name.Name, "service-%d", &i); err != nil {
		panic(err)
	}
	s := &plan.Service{
		Name: name, Created: time.Unix(int64(i), 0),
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)})},
		Ports:      []plan.Port{{Name: "http", Protocol: ipvsutil.TCP, Port: 80}},
	}
	endpoints := make([]plan.Endpoint, c.endpoints)
	for e := range endpoints {
		n := i*c.endpoints + e
		if i == 0 && e == 0 {
			n = 1<<20 + c.turn%2
		}
		endpoints[e] = plan.Endpoint{
			PortName: "http", Protocol: ipvsutil.TCP, NodeName: "other", Ready: true, Serving: true,
			Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 128 + byte(n>>16), byte(n >> 8), byte(n)}), 8080),
		}
	}
	return s, endpoints
}

// start plans and writes everything, and returns the loop and the requests so far.
func (c *crowd) start(tb testing.TB) (*Proxier, *int) {
	requests := new(int)
	kernel := blank{requests}
	config := Config{
		NodeName: "n", MarkBase: 1 << 15, MarkBits: 14,
		Reconcile: reconcile.Config{DrainCheck: time.Hour, SyncPeriod: -1, RefreshPeriod: -1},
	}
	all := func(addrs, _ []netip.Addr) []netip.Addr { return addrs }
	p := New(config, c, c, all, reconcile.Doors{
		IPVS: kernel, Sets: blankSets{requests}, Addresses: kernel, Rules: blankRules{}, Flows: kernel,
	}, slog.New(slog.DiscardHandler))
	if s := p.work(tb.Context()); !s.Complete() || s.Dirty != c.services {
		tb.Fatalf("%+v", s)
	}
	return p, requests
}

// change replaces one endpoint of one Service, and counts what there is, as the
// metrics do.
func (c *crowd) change(tb testing.TB, p *Proxier) {
	c.turn++
	c.dirty.Services = []plan.ServiceName{crowdName(0)}
	if s := p.work(tb.Context()); !s.Complete() || s.Ops == 0 {
		tb.Fatalf("%+v", s)
	}
	if i := p.Inventory(); i.Services != c.services {
		tb.Fatalf("%+v", i)
	}
}

var crowds = []int{100, 1000, 10000}

// TestCaseI3CostOfARound (kubernetes/kubernetes#73382): a round with one dirty Service
// makes the same requests and allocations whatever the number of Services.
func TestCaseI3CostOfARound(t *testing.T) {
	var requests, allocs []float64
	for _, n := range crowds {
		c := &crowd{services: n, endpoints: 4}
		p, sent := c.start(t)
		c.change(t, p)
		*sent = 0
		const runs = 50
		allocs = append(allocs, testing.AllocsPerRun(runs, func() { c.change(t, p) }))
		requests = append(requests, float64(*sent)/(runs+1))
	}
	for i := range crowds {
		if requests[i] != requests[0] || allocs[i] > allocs[0]*1.1+2 {
			t.Errorf("by number of Services %v: %v requests, %v allocations", crowds, requests, allocs)
			break
		}
	}
	t.Logf("by number of Services %v: %v requests, %v allocations", crowds, requests, allocs)
}

func BenchmarkRound(b *testing.B) {
	for _, n := range crowds {
		b.Run(fmt.Sprintf("%dservices", n), func(b *testing.B) {
			c := &crowd{services: n, endpoints: 4}
			p, _ := c.start(b)
			b.ReportAllocs()
			for b.Loop() {
				c.change(b, p)
			}
		})
	}
}

// BenchmarkScale is what the largest clusters would cost apart from the kernel and the
// watched objects: run it with -benchtime 1x. Each reports the processor time of the
// first round, that of one change, and the memory that stays, per Service and per endpoint.
func BenchmarkScale(b *testing.B) {
	for _, size := range []struct{ services, endpoints int }{
		{1000, 4}, {5000, 4}, {10000, 10}, {100000, 1}, {100000, 10},
	} {
		b.Run(fmt.Sprintf("%dx%d", size.services, size.endpoints), func(b *testing.B) {
			for b.Loop() {
				c := &crowd{services: size.services, endpoints: size.endpoints}
				before := heap()
				began := cpu(b)
				p, _ := c.start(b)
				first := cpu(b) - began
				kept := heap() - before
				began = cpu(b)
				const changes = 1000
				for range changes {
					c.change(b, p)
				}
				b.ReportMetric(first.Seconds()*1000, "cpu-ms/first")
				b.ReportMetric((cpu(b)-began).Seconds()*1e6/changes, "cpu-us/change")
				b.ReportMetric(kept/float64(size.services), "B/service")
				b.ReportMetric(kept/float64(size.services*size.endpoints), "B/endpoint")
				b.ReportMetric(kept/(1<<20), "MiB")
			}
		})
	}
}

// cpu is the time of the processor that this process took so far, collection of
// garbage included. It holds on a busy machine, as the time of day does not.
func cpu(b *testing.B) time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heap is the memory in use.
func heap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}
