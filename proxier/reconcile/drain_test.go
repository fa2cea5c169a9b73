package reconcile

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kube-ipvs-proxy/ipvsutil"
)

var (
	web  = key("10.96.0.1:80", ipvsutil.TCP)
	dns  = key("10.96.0.2:53", ipvsutil.UDP)
	pod1 = netip.MustParseAddrPort("10.244.0.1:8080")
	pod2 = netip.MustParseAddrPort("10.244.0.2:8080")
	dns1 = netip.MustParseAddrPort("10.244.0.1:8053")
)

// real is a real server as the kernel has it.
func (w *world) real(key ipvsutil.Key, addr netip.AddrPort) ipvsutil.RealServerState {
	w.t.Helper()
	states, err := w.ipvs.RealServers(w.t.Context(), key)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, s := range states {
		if s.Addr == addr {
			return s
		}
	}
	w.t.Fatalf("%v has no real server %v", key, addr)
	return ipvsutil.RealServerState{}
}

// busy gives a real server connections, or takes them away, as clients do.
func (w *world) busy(key ipvsutil.Key, addr netip.AddrPort, active uint32) {
	w.t.Helper()
	s := w.real(key, addr)
	s.Connections.Active = active
	w.ipvs.PutReal(key, s)
}

// weight is "w1", or "" for a real server that is not there.
func (w *world) weight(key ipvsutil.Key, addr netip.AddrPort) string {
	_, rest, found := strings.Cut(w.ipvs.Dump(), "rs "+key.String()+" "+addr.String()+" ")
	if !found {
		return ""
	}
	line, _, _ := strings.Cut(rest, "\n")
	return line
}

func (w *world) wantWeight(key ipvsutil.Key, addr netip.AddrPort, want string) {
	w.t.Helper()
	if got := w.weight(key, addr); got != want {
		w.t.Fatalf("%v of %v has weight %q, want %q", addr, key, got, want)
	}
}

// wait lets time go by, with the rounds that are due meanwhile.
func (w *world) wait(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); {
		report := w.round()
		if report.Failures > 0 {
			w.t.Fatal(report.Err())
		}
		left := time.Until(end)
		if report.RetryIn > 0 {
			left = min(left, report.RetryIn)
		}
		time.Sleep(left)
	}
	w.round()
}

// bubble runs a test whose waits take no time.
func bubble(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) { test(newWorld(t)) })
}

func TestDrainEndsWhenIdle(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.settle()
		w.busy(web, pod1, 1)
		w.put(s.with(2))
		if report := w.round(); report.Draining != 2 { // one a family
			t.Errorf("%d drain", report.Draining)
		}
		w.wantWeight(web, pod1, "w0")
		w.wait(5 * time.Minute)
		w.wantWeight(web, pod1, "w0")
		w.busy(web, pod1, 0)
		w.wait(31 * time.Second)
		w.wantWeight(web, pod1, "")
		w.settle()
		w.equal()
	})
}

func TestDrainEndsAtItsDeadline(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.settle()
		w.busy(web, pod1, 1)
		w.put(s.with(2))
		w.wait(15*time.Minute - time.Second)
		w.wantWeight(web, pod1, "w0")
		w.wait(32 * time.Second)
		w.wantWeight(web, pod1, "")
	})
}

func TestDrainTimeoutOfAService(t *testing.T) {
	for text, c := range map[string]struct {
		own    time.Duration
		atOnce bool
		after  map[time.Duration]string
	}{
		"at once": {own: 0, after: map[time.Duration]string{time.Millisecond: ""}},
		"short":   {own: time.Minute, after: map[time.Duration]string{59 * time.Second: "w0", 91 * time.Second: ""}},
		"never":   {own: -1, after: map[time.Duration]string{24 * time.Hour: "w0"}},
	} {
		t.Run(text, func(t *testing.T) {
			for after, want := range c.after {
				bubble(t, func(w *world) {
					s := newService(1).with(1, 2)
					s.DrainTimeout = &c.own
					w.put(s)
					w.settle()
					w.busy(web, pod1, 1)
					w.put(s.with(2))
					w.wait(after)
					w.wantWeight(web, pod1, want)
				})
				bubble(t, func(w *world) { // the whole Service goes
					s := newService(1).with(1, 2)
					s.DrainTimeout = &c.own
					w.put(s)
					w.settle()
					w.busy(web, pod1, 1)
					w.remove(s)
					w.wait(after)
					w.wantWeight(web, pod1, want)
				})
			}
		})
	}
}

func TestDrainTimeoutMayChange(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.settle()
		w.busy(web, pod1, 1)
		w.put(s.with(2))
		w.wait(time.Minute)
		short := 10 * time.Second
		s.DrainTimeout = &short
		w.put(s)
		w.wait(longestCheck + time.Second)
		w.wantWeight(web, pod1, "")
	})
}

// However often the agent starts anew meanwhile, a drain ends when it would have ended:
// that of an endpoint as that of a Service.
func TestDeadlineOutlivesRestarts(t *testing.T) {
	for name, leave := range map[string]func(*world, *service){
		"endpoint": func(w *world, s *service) { w.put(s.with(2)) },
		"Service":  func(w *world, s *service) { w.remove(s) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(w *world) {
				s := w.put(newService(1).with(1, 2))
				w.settle()
				w.busy(web, pod1, 1)
				leave(w, s)
				for range 14 {
					w.wait(time.Minute)
					w.wantWeight(web, pod1, "w0")
					w.start()
				}
				w.wait(59 * time.Second)
				w.wantWeight(web, pod1, "w0")
				w.wait(longestCheck + time.Second)
				w.wantWeight(web, pod1, "")
				w.settle()
				w.equal()
			})
		})
	}
}

// drained is when the kernel has it that a drain began; zero: it has not.
func (w *world) drained(key ipvsutil.Key, addr netip.AddrPort) uint32 {
	w.t.Helper()
	return w.real(key, addr).Drained
}

// What another proxy drained drains from now on; what comes back has no begin any more,
// also if its weight is to be zero; and a begin in the future is none.
func TestBeginOfADrain(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.settle()
		w.ipvs.PutReal(web, ipvsutil.RealServerState{RealServer: ipvsutil.RealServer{Addr: pod1}, Connections: ipvsutil.Connections{Active: 1}})
		w.put(s.with(2))
		w.start()
		w.round()
		if got, want := w.drained(web, pod1), ipvsutil.DrainedAt(time.Now()); got != want {
			t.Errorf("adopted drain began at %d, want %d", got, want)
		}
		s.Weights = map[netip.Addr]uint32{pod1.Addr(): 0}
		w.put(s.with(1, 2))
		w.start()
		w.round()
		w.wantWeight(web, pod1, "w0")
		if got := w.drained(web, pod1); got != 0 {
			t.Errorf("an endpoint that is wanted at weight 0 drains since %d", got)
		}
		tomorrow := time.Now().Add(24 * time.Hour)
		w.ipvs.PutReal(web, ipvsutil.RealServerState{
			RealServer:  ipvsutil.RealServer{Addr: pod1, Drained: ipvsutil.DrainedAt(tomorrow)},
			Connections: ipvsutil.Connections{Active: 1},
		})
		w.put(s.with(2))
		w.start()
		w.wait(15*time.Minute + longestCheck)
		w.wantWeight(web, pod1, "")
	})
}

// A real server that comes back is given its weight in place.
func TestDrainedComesBack(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.settle()
		w.busy(web, pod1, 1)
		before := len(w.guard.history)
		for range 50 {
			w.put(s.with(2))
			w.round()
			w.wantWeight(web, pod1, "w0")
			w.put(s.with(1, 2))
			w.round()
			w.wantWeight(web, pod1, "w1")
			time.Sleep(3 * time.Second)
		}
		for _, line := range w.guard.history[before:] {
			if strings.Contains(line, pod1.String()) && !strings.HasPrefix(line, "update real server") {
				t.Error(line)
			}
		}
	})
}

// One that comes back when its idle drain is due is not deleted before.
func TestDrainedComesBackWhenDue(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.settle()
		w.put(s.with(2))
		w.round()
		time.Sleep(w.config.DrainCheck)
		before := len(w.guard.history)
		w.put(s.with(1, 2))
		w.round()
		if got := strings.Join(w.guard.history[before:], "\n"); strings.Contains(got, "delete real") {
			t.Error(got)
		}
		w.equal()
	})
}

func TestUDPIsKeptWhileItServes(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(2).dns().with(1, 2))
		w.settle()
		w.busy(dns, dns1, 1)
		w.flows.take()
		w.put(s.finish(1, true))
		w.round()
		w.wantWeight(dns, dns1, "w0")
		if got := w.flows.take(); got != "" {
			t.Errorf("flows deleted while it serves:\n%s", got)
		}
		w.put(s.finish(1, false))
		w.round()
		w.wantWeight(dns, dns1, "")
		if got, want := w.flows.take(), "10.96.0.2:53/udp 10.244.0.1:8053\n[fd10::2]:53/udp [fd24::1]:8053\n"; got != want {
			t.Errorf("flows deleted:\n%swant:\n%s", got, want)
		}
	})
}

func TestUDPThatIsGoneIsDeletedAtOnce(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(2).dns().with(1, 2))
		w.settle()
		w.busy(dns, dns1, 1)
		w.flows.err = errFlows
		w.put(s.with(2))
		report := w.round()
		w.wantWeight(dns, dns1, "")
		if report.Pending == 0 {
			t.Error("flows that could not be deleted are nothing to do")
		}
		w.flows.err = nil
		time.Sleep(report.RetryIn)
		w.round()
		if got := w.flows.take(); !strings.Contains(got, "10.96.0.2:53/udp 10.244.0.1:8053\n") {
			t.Errorf("flows deleted after a failure: %q", got)
		}
	})
}

// While the deletion of flows waits for its next try the endpoint came back: its
// flows are good again.
func TestFlowsThatAreGoodAgainStay(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(2).dns().with(1, 2))
		w.settle()
		w.flows.err = errFlows
		w.put(s.with(2))
		w.round()
		w.flows.err = nil
		w.put(s.with(1, 2))
		w.settle()
		if got := w.flows.take(); strings.Contains(got, "10.244.0.1") {
			t.Errorf("good flows deleted: %q", got)
		}
	})
}

func TestUDPServiceDeleted(t *testing.T) {
	bubble(t, func(w *world) {
		s := newService(2).dns().with(1, 2).nodePort(30002)
		s.Ports[1].NodePort = 30053
		w.put(s)
		w.settle()
		w.flows.take()
		w.remove(s)
		w.settle()
		w.equal()
		want := "10.96.0.2:53/udp any\n192.0.2.11:30053/udp any\n[2001:db8::11]:30053/udp any\n[fd10::2]:53/udp any\n"
		if got := w.flows.take(); got != want {
			t.Errorf("flows deleted:\n%swant:\n%s", got, want)
		}
	})
}

// A client on this node was led to an endpoint elsewhere by the mark server.
func TestUDPFlowsThroughTheShortCircuit(t *testing.T) {
	bubble(t, func(w *world) {
		s := newService(5).dns().loadBalancer(5)
		s.ExternalLocal = true
		w.put(s.with(1, 2))
		w.settle()
		w.flows.take()
		w.put(s.with(1))
		w.settle()
		if got := w.flows.take(); !strings.Contains(got, "203.0.113.5:53/udp 10.244.0.2:8053\n") {
			t.Errorf("flows deleted:\n%s", got)
		}
	})
}
