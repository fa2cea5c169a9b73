package proxier

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/reconcile"
)

// Field reports about large clusters, by their letters and numbers.

// TestCaseI1NoListingOfAddresses (kubernetes/kubernetes#138927): changes among 20,000
// bound addresses list no addresses, of the device or of the host.
func TestCaseI1NoListingOfAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(t)
		l.config.Reconcile.SyncPeriod, l.config.Reconcile.RefreshPeriod = -1, -1
		for i := range 20000 {
			s := service(i)
			s.ClusterIPs = []netip.Addr{netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})}
			l.source.put(s, 1)
		}
		l.run(func() {
			if n := len(l.taken()); n == 0 {
				t.Fatal("no round")
			}
			l.addresses.ResetCounts()
			listed := l.host.listed
			for i := range 20 {
				l.source.put(service(1), 1, 2+i)
				l.pass(time.Second)
			}
			l.has(fmt.Sprintf("rs 10.96.0.1:80/tcp 10.244.0.%d:8080 w1", 21))
			if n := l.addresses.Counts().List; n != 0 || l.host.listed != listed {
				t.Errorf("the device's addresses were listed %d times, the host's %d times", n, l.host.listed-listed)
			}
		})
	})
}

// journal notes in which order a kernel is changed.
type journal struct {
	blank
	blankSets
	lines []string
}

func (j *journal) note(line string) { j.lines = append(j.lines, line) }

// journalIPVS, journalSets, journalAddresses and journalRules are its four doors.
type (
	journalIPVS      struct{ *journal }
	journalSets      struct{ *journal }
	journalAddresses struct {
		blank
		journal *journal
	}
	journalRules struct{ journal *journal }
)

func (d journalIPVS) Do(_ context.Context, ops []ipvsutil.Op) []error {
	for _, op := range ops {
		d.note(op.String())
	}
	return nil
}

func (d journalSets) Do(_ context.Context, changes []ipsetutil.Change) []error {
	for _, c := range changes {
		d.note(c.String())
	}
	return nil
}

func (d journalAddresses) Bind(_ context.Context, addrs []netip.Addr) []error {
	for _, a := range addrs {
		d.journal.note("bind " + a.String())
	}
	return nil
}

func (d journalRules) Ensure(context.Context) (bool, error) {
	d.journal.note("rules")
	return true, nil
}

// first is where a line with all these words is first.
func (j *journal) first(words ...string) int {
	return slices.IndexFunc(j.lines, func(line string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	})
}

// TestCaseI2APIServerFirst (kubernetes/kubernetes#133773): among 5,000 Services that of
// the API server is complete before anything of another is there, in the order that
// leaves no server without its entries and rules.
func TestCaseI2APIServerFirst(t *testing.T) {
	j := &journal{}
	source := newSource()
	const others = 5000
	for i := range others {
		s := service(i)
		s.ClusterIPs = []netip.Addr{netip.AddrFrom4([4]byte{10, 97, byte(i >> 8), byte(i)})}
		source.put(s, 1, 2)
	}
	api := service(1)
	api.Name, api.Ports[0].Port = apiServer, 443
	source.put(api, 7)
	all := func(addrs, _ []netip.Addr) []netip.Addr { return addrs }
	p := New(Config{NodeName: "n", MarkBits: 14}, source, newHost(), all, reconcile.Doors{
		IPVS: journalIPVS{j}, Sets: journalSets{j}, Addresses: journalAddresses{journal: j}, Rules: journalRules{j},
	}, slog.New(slog.DiscardHandler))
	if s := p.work(t.Context()); !s.Complete() {
		t.Fatal(s.Err())
	}
	order := []int{
		j.first("add KUBE-CLUSTER-IP 10.96.0.1,tcp:443"), j.first("rules"),
		j.first("create virtual server 10.96.0.1:443/tcp"), j.first("create real server 10.96.0.1:443/tcp", "10.244.0.7"),
		j.first("bind 10.96.0.1"), j.first("10.97."),
	}
	if !slices.IsSorted(order) || order[0] < 0 {
		t.Errorf("entry, rules, server, endpoint, address, others come as lines %v of\n%s", order, strings.Join(j.lines[:30], "\n"))
	}
	if last := j.first("bind 10.97."); last < j.first("create real server", "10.97.19.135") {
		t.Errorf("an address is bound (line %d) before the last server is there", last)
	}
}

// TestCaseI8NoChangeWaitsLonger (kubernetes/kubernetes#62839): with a least time between
// rounds, no change waits longer than that.
func TestCaseI8NoChangeWaitsLonger(t *testing.T) {
	const period = time.Second
	running(t, func(l *loop) { l.config.MinSyncPeriod = period }, func(l *loop) {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		for i := range 200 {
			pod := 2 + i%250
			l.source.put(service(1), pod)
			began := time.Now()
			line := fmt.Sprintf("rs 10.96.0.1:80/tcp 10.244.0.%d:8080 w1\n", pod)
			for synctest.Wait(); !strings.Contains(l.ipvs.Dump(), line); l.pass(10 * time.Millisecond) {
				if time.Since(began) > period {
					t.Fatalf("seed %d: change %d waits longer than %v", seed, i, period)
				}
			}
			l.pass(time.Duration(random.Int64N(int64(3 * period))))
		}
	})
}
