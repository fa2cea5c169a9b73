package reconcile

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/fake"
)

// refuse has the kernel refuse one verb.
func (w *world) refuse(verb ipvsutil.Verb) {
	w.ipvs.Fail(func(r fake.IPVSRequest) error {
		if r.Op.Verb == verb {
			return syscall.EBUSY
		}
		return nil
	})
}

// A server that cannot be deleted keeps the entries by which it is ours, also for
// the process after this one.
func TestServerThatCannotBeDeleted(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(4).nodePort(30004).with(1))
		w.put(newService(5).with(5))
		w.settle()
		w.refuse(ipvsutil.DeleteVirtualServer)
		w.remove(s)
		for range 5 {
			time.Sleep(w.round().RetryIn)
		}
		dump := w.dump()
		for _, line := range []string{"vs 192.0.2.11:30004/tcp rr", "set KUBE-NODE-PORT-TCP 30004", "vs 10.96.0.4:80/tcp rr", "set KUBE-CLUSTER-IP 10.96.0.4,tcp:80"} {
			if !strings.Contains(dump, line) {
				t.Errorf("%s is gone", line)
			}
		}
		w.start()
		w.ipvs.Fail(nil)
		w.settle()
		w.equal()
	})
}

// An address that cannot be unbound keeps the entry that the guard of its ports needs.
func TestAddressThatCannotBeUnbound(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(4).with(1))
		w.settle()
		w.addresses.Fail(func(r fake.AddressRequest) error {
			if r.Op == "unbind" {
				return syscall.EBUSY
			}
			return nil
		})
		w.remove(s)
		w.round()
		if dump := w.dump(); !strings.Contains(dump, "set KUBE-IPVS-IPS 10.96.0.4") || strings.Contains(dump, "vs ") {
			t.Error(dump)
		}
		w.addresses.Fail(nil)
		w.settle()
		w.equal()
	})
}

// The old real servers serve until one of the new ones is there.
func TestReplacementThatDoesNotCome(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.settle()
		w.refuse(ipvsutil.CreateRealServer)
		w.put(s.with(3, 4))
		w.round()
		w.wantWeight(web, pod1, "w1")
		w.put(s.with(3, 2)) // one of the old stays
		w.round()
		w.wantWeight(web, pod1, "w0")
		w.ipvs.Fail(nil)
		w.settle()
		w.equal()
	})
}

// Other rules than before are no repair, nor are the first ones.
func TestWantedRulesAreNoRepair(t *testing.T) {
	bubble(t, func(w *world) {
		w.sample()
		repairs := len(w.settle().Repairs)
		w.rules.there = false
		w.EnsureRules()
		repairs += len(w.round().Repairs)
		if repairs != 0 || !w.rules.there {
			t.Errorf("%d repairs", repairs)
		}
		w.rules.there = false
		w.Doubt()
		if report := w.round(); report.Repairs["rules"] != 1 {
			t.Errorf("%+v", report)
		}
	})
}

// No entry, no server: one whose entry the full set refuses is not made, and the
// frontend is refused instead of leading to the host.
func TestServerWaitsForItsEntry(t *testing.T) {
	bubble(t, func(w *world) {
		full := true
		w.sets.SetFault(func(op, object string) error {
			if full && op == "add" && object == "KUBE-CLUSTER-IP 10.96.0.1,tcp:80" {
				return syscall.ENOMEM
			}
			return nil
		})
		w.put(newService(1).with(1, 2))
		w.put(newService(5).with(5))
		report := w.round()
		if dump := w.dump(); report.Pending == 0 || strings.Contains(dump, "vs 10.96.0.1:80/tcp") ||
			!strings.Contains(dump, "set KIPVS-REFUSE 10.96.0.1,tcp:80") || !strings.Contains(dump, "vs 10.96.0.5:80/tcp") {
			t.Errorf("%+v\n%s", report, dump)
		}
		full = false
		time.Sleep(report.RetryIn)
		w.round()
		w.equal()
	})
}

// A server whose real servers cannot be read is left alone until they can: it may
// have connections.
func TestServerThatCannotBeRead(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.put(newService(5).with(5))
		w.settle()
		w.busy(web, pod1, 1)
		delete(w.services, s.Name)
		w.put(newService(6).with(6))
		w.start()
		w.ipvs.Fail(func(r fake.IPVSRequest) error {
			if r.List == "real servers of "+web.String() {
				return syscall.EBUSY
			}
			return nil
		})
		report := w.round()
		for range 5 {
			time.Sleep(report.RetryIn)
			report = w.round()
		}
		if dump := w.dump(); report.Pending == 0 || !strings.Contains(dump, "vs 10.96.0.6:80/tcp rr") {
			t.Errorf("others wait too: %+v\n%s", report, dump)
		}
		w.wantWeight(web, pod1, "w1")
		for _, line := range w.guard.history {
			if strings.Contains(line, web.String()) {
				t.Error(line)
			}
		}
		w.ipvs.Fail(nil)
		w.wait(time.Minute)
		w.equal(lingeringWeb...)
	})
}

// Of two Services with one address only the older one's mark server is made: to the
// other no frontend leads, so that it would be nobody's.
func TestMarkServerWithoutAFrontend(t *testing.T) {
	bubble(t, func(w *world) {
		older, younger := newService(5).loadBalancer(5), newService(6).loadBalancer(5)
		for i, s := range []*service{older, younger} {
			s.ExternalLocal = true
			s.ClusterIPs = s.ClusterIPs[:1]
			w.put(s.with(10*i+1, 10*i+2))
		}
		w.settle()
		if n := strings.Count(w.ipvs.Dump(), "vs fwm"); n != 1 {
			t.Errorf("%d mark servers:\n%s", n, w.ipvs.Dump())
		}
		w.remove(older)
		w.settle()
		w.equal()
		w.put(older)
		w.settle()
		if n := strings.Count(w.ipvs.Dump(), "vs fwm"); n != 1 {
			t.Errorf("%d mark servers after the older came back:\n%s", n, w.ipvs.Dump())
		}
		w.remove(younger)
		w.remove(older)
		w.settle()
		w.equal()
	})
}
