package reconcile

import (
	"context"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/ipvsutil"
)

// counting is a door that counts, as the kernel's does.
type counting struct {
	guardedIPVS
	asked *int
}

func (c counting) CountIPv4(context.Context) (int, error) {
	*c.asked++
	n := 0
	for line := range strings.Lines(c.Dump()) {
		if strings.HasPrefix(line, "vs ") && !strings.Contains(line, "[") && !strings.Contains(line, "IPv6") {
			n++
		}
	}
	return n, nil
}

// counted is a settled world with a door that counts, and Services of one family or two.
func counted(t *testing.T, families int, test func(w *world, asked *int)) {
	refreshing(t, func(w *world) {
		asked := new(int)
		w.doors.IPVS = counting{w.doors.IPVS.(guardedIPVS), asked}
		for i := range 50 {
			s := newService(i).with(i, i+1)
			s.ClusterIPs = s.ClusterIPs[:families]
			w.put(s)
		}
		w.settle()
		w.pass(2 * time.Minute)
		w.resetCounts()
		test(w, asked)
	})
}

// pass makes the rounds of a time.
func (w *world) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); {
		time.Sleep(w.round().RetryIn)
	}
}

// At rest the servers are counted each period and at each glance, and listed once in a refresh period.
func TestServersAreCountedBeforeTheyAreListed(t *testing.T) {
	counted(t, 1, func(w *world, asked *int) {
		*asked = 0
		w.pass(20 * time.Minute)
		glances := int(20 * time.Minute / glancePeriod)
		if n := w.ipvs.Counts().ListVirtual; n < 1 || n > 3 || *asked-glances < 38 || *asked-glances > 42 {
			t.Errorf("in twenty minutes listed %d times, counted %d times", n, *asked)
		}
	})
}

// What we make and delete ourselves is counted, and needs no list.
func TestOwnServersAreCounted(t *testing.T) {
	counted(t, 1, func(w *world, asked *int) {
		for i := range 5 {
			s := newService(100+i).with(i, i+1)
			s.ClusterIPs = s.ClusterIPs[:1]
			w.put(s)
			w.pass(time.Minute)
			w.remove(s)
			w.pass(time.Minute)
		}
		if n := w.ipvs.Counts().ListVirtual; n > 2 || *asked < 15 {
			t.Errorf("in ten minutes with ten changes listed %d times, counted %d times", n, *asked)
		}
	})
}

// A server that somebody deletes is put back within a period, one that somebody changes,
// or that takes the place of ours, within a refresh period.
func TestCountedServersAreRepaired(t *testing.T) {
	victim := key("10.96.0.7:80", ipvsutil.TCP)
	deleted := ipvsutil.Op{Verb: ipvsutil.DeleteVirtualServer, Server: ipvsutil.VirtualServer{Key: victim}}
	changed := ipvsutil.Op{Verb: ipvsutil.UpdateVirtualServer, Server: ipvsutil.VirtualServer{Key: victim, Scheduler: "lc"}}
	other := ipvsutil.Op{Verb: ipvsutil.CreateVirtualServer, Server: ipvsutil.VirtualServer{Key: key("192.0.2.99:80", ipvsutil.TCP), Scheduler: "rr"}}
	for name, c := range map[string]struct {
		ops    []ipvsutil.Op
		within time.Duration
		stays  []string
	}{
		"deleted":  {[]ipvsutil.Op{deleted}, 31 * time.Second, nil},
		"changed":  {[]ipvsutil.Op{changed}, 11 * time.Minute, nil},
		"replaced": {[]ipvsutil.Op{deleted, other}, 11 * time.Minute, []string{"vs 192.0.2.99:80/tcp rr"}},
	} {
		t.Run(name, func(t *testing.T) {
			counted(t, 1, func(w *world, _ *int) {
				if errs := w.ipvs.Do(t.Context(), c.ops); errs != nil {
					t.Fatal(errs)
				}
				w.pass(c.within)
				w.settle()
				w.equal(c.stays...)
			})
		})
	}
}

// Servers of IPv6 are not counted, so that they are listed each time.
func TestServersOfIPv6AreListed(t *testing.T) {
	counted(t, 2, func(w *world, _ *int) {
		w.pass(5 * time.Minute)
		if n := w.ipvs.Counts().ListVirtual; n < 9 || n > 11 {
			t.Errorf("listed %d times in five minutes", n)
		}
	})
}
