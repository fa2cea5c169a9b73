package proxier

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/fake"
	"kube-ipvs-proxy/proxier/plan"
)

func TestDirtyServicesAreBroughtToTheKernel(t *testing.T) {
	running(t, func(l *loop) {
		for i := range 20 {
			l.source.put(service(i+1), 1)
		}
	}, func(l *loop) {
		l.has("vs 10.96.0.1:80/tcp rr", "rs 10.96.0.20:80/tcp 10.244.0.1:8080 w1", "addr 10.96.0.7")
		for i := range 20 {
			l.source.count(service(i + 1).Name)
		}
		l.source.put(service(3), 1, 2)
		l.has("rs 10.96.0.3:80/tcp 10.244.0.2:8080 w1")
		if n := l.source.count(service(3).Name); n != 1 {
			t.Errorf("the dirty Service was asked for %d times", n)
		}
		if n := l.source.count(service(4).Name); n != 0 {
			t.Errorf("another one was asked for %d times", n)
		}
		l.source.remove(service(3).Name)
		l.has("!vs 10.96.0.3:80/tcp rr", "!addr 10.96.0.3", "vs 10.96.0.4:80/tcp rr")
	})
}

// Nothing is written, and nothing deleted, before the first complete read.
func TestNothingBeforeTheFirstRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(t)
		l.source.put(service(1), 1)
		l.source.put(service(2), 2)
		if _, err := l.build().Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		before := l.ipvs.Dump() + l.sets.Dump() + l.addresses.Dump()
		delete(l.source.services, service(2).Name)
		l.source.synced = false
		n := l.after()
		n.run(func() {
			for range 10 {
				poke(n.source.changed)
				n.pass(time.Minute)
			}
			if now := n.ipvs.Dump() + n.sets.Dump() + n.addresses.Dump(); now != before || n.ipvs.Counts() != (fake.IPVSCounts{}) {
				t.Errorf("touched before the first read: %+v", n.ipvs.Counts())
			}
			n.source.change(func() { n.source.synced = true })
			n.has("vs 10.96.0.1:80/tcp rr", "!vs 10.96.0.2:80/tcp rr")
		})
	})
}

func TestNodeChangeReplansAll(t *testing.T) {
	running(t, func(l *loop) { l.source.put(nodePort(1, 30001), 1) }, func(l *loop) {
		l.has("vs 192.0.2.11:30001/tcp rr")
		listed := l.host.listed
		l.source.put(service(2), 1)
		l.pass(time.Hour)
		if l.host.listed != listed {
			t.Errorf("addresses listed %d times without a change", l.host.listed-listed)
		}
		l.host.change(nil, "192.0.2.11", "198.51.100.9")
		l.has("vs 192.0.2.11:30001/tcp rr", "vs 198.51.100.9:30001/tcp rr", "set KIPVS-NODE-IP 198.51.100.9")
		l.host.change(nil, "198.51.100.9")
		l.has("!vs 192.0.2.11:30001/tcp rr", "vs 198.51.100.9:30001/tcp rr", "!set KIPVS-NODE-IP 192.0.2.11")
		l.source.change(func() { l.source.node.Zone = "z1" })
		synctest.Wait()
		if n := l.source.count(nodePort(1, 1).Name); n < 4 {
			t.Errorf("planned %d times", n)
		}
	})
}

// kubernetes/kubernetes#129147: a failed listing must not take NodePorts away.
func TestFailedListingOfAddressesKeepsThoseKnown(t *testing.T) {
	running(t, func(l *loop) { l.source.put(nodePort(1, 30001), 1) }, func(l *loop) {
		l.host.change(errors.New("interrupted"))
		l.pass(10 * time.Second)
		l.has("vs 192.0.2.11:30001/tcp rr", "set KIPVS-NODE-IP 192.0.2.11")
		if said := l.log.take("interrupted"); len(said) != 1 {
			t.Errorf("said %d times: %v", len(said), said)
		}
		l.source.put(service(2), 1) // others go on
		l.has("vs 10.96.0.2:80/tcp rr")
		l.host.mu.Lock()
		l.host.err, l.host.addrs = nil, []netip.Addr{netip.MustParseAddr("192.0.2.12")}
		l.host.mu.Unlock()
		l.pass(2 * time.Second) // it is tried again by itself
		l.has("vs 192.0.2.12:30001/tcp rr", "!vs 192.0.2.11:30001/tcp rr")
	})
}

// At the very start there is nothing to go on with, and the kernel's NodePorts stay.
func TestFailedListingAtTheStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(t)
		l.source.put(nodePort(1, 30001), 1)
		if _, err := l.build().Once(t.Context()); err != nil {
			t.Fatal(err)
		}
		n := l.after()
		n.host.err = errors.New("interrupted")
		n.run(func() {
			n.pass(5 * time.Second)
			n.has("vs 192.0.2.11:30001/tcp rr", "set KIPVS-NODE-IP 192.0.2.11")
			n.host.change(nil, "192.0.2.11")
			n.has("vs 192.0.2.11:30001/tcp rr")
			if ops := n.ipvs.Counts().Ops; n.ipvs.Counts().Needless != 0 || ops[3]+ops[6] != 0 {
				t.Errorf("%+v", n.ipvs.Counts())
			}
		})
	})
}

func TestPanicOfOneService(t *testing.T) {
	bad := service(2).Name
	running(t, func(l *loop) {
		l.source.put(service(1), 1)
		l.source.put(service(2), 1)
		l.source.put(service(3), 1)
	}, func(l *loop) {
		l.taken()
		l.source.change(func() { l.source.bad[bad] = true })
		l.source.put(service(2), 1, 2)
		l.source.put(service(3), 1, 3)
		l.has("rs 10.96.0.3:80/tcp 10.244.0.3:8080 w1", "rs 10.96.0.2:80/tcp 10.244.0.1:8080 w1",
			"!rs 10.96.0.2:80/tcp 10.244.0.2:8080 w1")
		panics := 0
		for _, s := range l.taken() {
			panics += s.Panics
			if s.Panics > 0 && s.Complete() {
				t.Error("a round with a panic is complete")
			}
		}
		if panics == 0 {
			t.Error("not counted")
		}
		if said := l.log.take("panic", "default/s2"); len(said) != 1 {
			t.Errorf("said %d times", len(said))
		}
		l.source.change(func() { l.source.bad[bad] = false })
		l.pass(31 * time.Second) // planned again without a change
		l.has("rs 10.96.0.2:80/tcp 10.244.0.2:8080 w1")
		if n := len(l.build().panicked); n != 0 {
			t.Errorf("%d remembered", n)
		}
	})
}

func TestOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(t)
		l.source.put(service(1), 1)
		l.ipvs.FailNth(2, syscall.ENOBUFS)
		ops, err := l.build().Once(t.Context())
		if err != nil || ops == 0 {
			t.Errorf("%d operations, %v", ops, err)
		}
		if ops, err := l.build().Once(t.Context()); ops != 0 || err != nil {
			t.Errorf("again: %d operations, %v", ops, err)
		}
		l.source.put(service(2), 1)
		l.ipvs.Fail(func(fake.IPVSRequest) error { return syscall.EPERM })
		if _, err := l.build().Once(t.Context()); !errors.Is(err, syscall.EPERM) {
			t.Errorf("a kernel that refuses: %v", err)
		}
	})
}

func TestPlanWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLoop(t)
		l.source.put(nodePort(1, 30001), 1)
		desired, err := l.build().Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if text := desired.Dump(); !strings.Contains(text, "vs 10.96.0.1:80/tcp rr\n") || !strings.Contains(text, "set KIPVS-NODE-IP 192.0.2.11\n") {
			t.Errorf("plan:\n%s", text)
		}
		if dump := l.ipvs.Dump() + l.sets.Dump() + l.addresses.Dump(); dump != "" {
			t.Errorf("written:\n%s", dump)
		}
	})
}

// "settled" tells that a revision of the source is in the kernel, once.
func TestSettledLines(t *testing.T) {
	running(t, func(l *loop) {
		l.source.put(service(1), 1)
		l.source.revision = "a"
	}, func(l *loop) {
		if got := l.log.take("settled"); len(got) != 1 || !strings.Contains(got[0], "revision=a") {
			t.Errorf("%v", got)
		}
		l.source.put(service(2), 1) // a change without a revision
		l.pass(time.Minute)
		if got := l.log.take("settled"); len(got) != 0 {
			t.Errorf("%v", got)
		}
		l.ipvs.Fail(func(fake.IPVSRequest) error { return syscall.ENOBUFS })
		l.source.change(func() { l.source.revision = "b" })
		l.source.put(service(3), 1)
		l.pass(10 * time.Second)
		if got := l.log.take("settled"); len(got) != 0 {
			t.Errorf("settled while it fails: %v", got)
		}
		l.source.change(func() { l.source.revision = "c" })
		l.pass(10 * time.Second)
		l.ipvs.Fail(nil)
		l.pass(time.Minute)
		if got := l.log.take("settled"); len(got) != 1 || !strings.Contains(got[0], "revision=c") {
			t.Errorf("%v", got)
		}
		l.has("vs 10.96.0.3:80/tcp rr")
	})
}

func TestFailuresAreSaidSeldom(t *testing.T) {
	running(t, func(l *loop) { l.source.put(service(1), 1) }, func(l *loop) {
		l.ipvs.Fail(func(fake.IPVSRequest) error { return syscall.ENOBUFS })
		l.source.put(service(2), 1)
		l.pass(4 * time.Minute)
		said := map[string]int{}
		for _, line := range l.log.take("operation failed") {
			_, text, _ := strings.Cut(line, "err=")
			said[text]++
		}
		for text, n := range said {
			if n > 1 {
				t.Errorf("said %d times: %s", n, text)
			}
		}
		if len(said) == 0 {
			t.Error("not said at all")
		}
	})
}

func TestConflictsAreSaidOnce(t *testing.T) {
	older, younger := service(1), service(2)
	younger.ClusterIPs = older.ClusterIPs
	running(t, func(l *loop) { l.source.put(older, 1) }, func(l *loop) {
		l.source.put(younger, 2)
		for i := range 5 {
			l.source.put(service(10+i), 1)
			l.pass(time.Minute)
		}
		if got := l.log.take("cannot serve", "default/s2", "default/s1"); len(got) != 1 {
			t.Errorf("said %d times: %v", len(got), got)
		}
		if rounds := l.taken(); rounds[len(rounds)-1].Conflicts != 1 {
			t.Errorf("%+v", rounds[len(rounds)-1])
		}
		l.has("rs 10.96.0.1:80/tcp 10.244.0.1:8080 w1", "!rs 10.96.0.1:80/tcp 10.244.0.2:8080 w1")
		l.source.remove(older.Name)
		l.has("rs 10.96.0.1:80/tcp 10.244.0.2:8080 w1")
		l.source.put(older, 1)
		l.pass(time.Second)
		if got := l.log.take("cannot serve", "default/s2"); len(got) != 1 {
			t.Errorf("a new conflict is said %d times", len(got))
		}
	})
}

func TestProblemsAreSaidOnce(t *testing.T) {
	bad := service(1)
	bad.ExternalIPs = []netip.Addr{netip.MustParseAddr("127.0.0.1")}
	running(t, nil, func(l *loop) {
		for range 5 {
			l.source.put(bad, 1)
			l.pass(time.Second)
		}
		if got := l.log.take("cannot serve", "127.0.0.1"); len(got) != 1 {
			t.Errorf("said %d times", len(got))
		}
		if rounds := l.taken(); rounds[len(rounds)-1].Problems != 1 || !rounds[len(rounds)-1].Complete() {
			t.Errorf("%+v", rounds[len(rounds)-1])
		}
		l.has("vs 10.96.0.1:80/tcp rr")
		l.source.put(service(1), 1)
		l.pass(time.Second)
		l.source.put(bad, 1)
		l.pass(time.Second)
		if got := l.log.take("cannot serve", "127.0.0.1"); len(got) != 1 {
			t.Errorf("after it was gone: said %d times", len(got))
		}
	})
}

// With one bit there is one mark: the second Service waits for it.
func TestServicesWithoutAMark(t *testing.T) {
	local := func(number int) *plan.Service {
		s := nodePort(number, uint16(30000+number))
		s.ExternalLocal = true
		return s
	}
	running(t, func(l *loop) {
		l.config.MarkBits = 1
		l.source.put(local(1), 1)
		l.pass(time.Second)
	}, func(l *loop) {
		l.source.put(local(2), 1)
		l.pass(time.Minute)
		if got := l.log.take("cannot serve", "default/s2"); len(got) != 1 || !strings.Contains(got[0], "marks") {
			t.Errorf("said: %v", got)
		}
		if rounds := l.taken(); rounds[len(rounds)-1].LocalOnly != 1 {
			t.Errorf("%+v", rounds[len(rounds)-1])
		}
		l.has("set KIPVS-SHORT-CIRCUIT 192.0.2.11,tcp:30001 mark 0x1", "!set KIPVS-SHORT-CIRCUIT 192.0.2.11,tcp:30002 mark 0x1")
		l.source.remove(local(1).Name)
		l.has("set KIPVS-SHORT-CIRCUIT 192.0.2.11,tcp:30002 mark 0x1", "vs fwm 1 (IPv4) rr")
		l.pass(time.Second)
		if rounds := l.taken(); rounds[len(rounds)-1].LocalOnly != 0 {
			t.Errorf("%+v", rounds[len(rounds)-1])
		}
	})
}

func TestDamageByOthers(t *testing.T) {
	running(t, func(l *loop) { l.source.put(service(1), 1) }, func(l *loop) {
		l.pass(time.Minute)
		_ = l.addresses.RemoveDevice(t.Context())
		poke(l.host.damaged)
		l.has("addr 10.96.0.1")
		if got := l.log.take("repaired"); len(got) != 1 {
			t.Errorf("said: %v", got)
		}
		lost := []netip.Addr{netip.MustParseAddr("10.96.0.1")}
		l.addresses.ResetCounts()
		l.host.unbound <- []netip.Addr{netip.MustParseAddr("10.96.0.99")} // by ourselves
		l.pass(time.Second)
		if n := l.addresses.Counts().List; n != 0 {
			t.Errorf("%d listings for what is not bound", n)
		}
		l.addresses.Unbind(t.Context(), lost)
		l.host.unbound <- lost
		l.has("addr 10.96.0.1")
		if got := l.log.take("repaired"); len(got) != 1 {
			t.Errorf("said: %v", got)
		}
		looks := l.rules.looks()
		poke(l.told)
		l.pass(100 * time.Millisecond)
		if n := l.rules.looks() - looks; n != 1 {
			t.Errorf("rules looked at %d times", n)
		}
		l.ipvs.Remove(ipvsutil.Key{Addr: netip.MustParseAddrPort("10.96.0.1:80"), Protocol: ipvsutil.TCP})
		l.pass(31 * time.Second)
		l.has("vs 10.96.0.1:80/tcp rr", "rs 10.96.0.1:80/tcp 10.244.0.1:8080 w1")
		l.pass(time.Hour)
		if got := l.log.take("repaired"); len(got) != 1 {
			t.Errorf("said: %v", got)
		}
	})
}

// At rest the loop writes nothing and asks for no Service.
func TestAtRest(t *testing.T) {
	running(t, func(l *loop) {
		for i := range 100 {
			l.source.put(service(i+1), 1)
		}
	}, func(l *loop) {
		l.pass(time.Minute)
		l.ipvs.ResetCounts()
		l.sets.ResetCounts()
		l.addresses.ResetCounts()
		l.source.count(service(1).Name)
		looks := l.rules.looks()
		l.taken()
		l.pass(10 * time.Minute)
		counts := l.ipvs.Counts()
		if counts.Total() != 0 || l.addresses.Counts().Bind+l.addresses.Counts().Written != 0 {
			t.Errorf("written: %+v", counts)
		}
		if n := l.source.count(service(1).Name); n != 0 {
			t.Errorf("asked for a Service %d times", n)
		}
		if n := l.rules.looks() - looks; n > 1 {
			t.Errorf("rules looked at %d times", n)
		}
		if n := len(l.taken()); n > 250 {
			t.Errorf("%d rounds", n)
		}
	})
}

func TestMinSyncPeriod(t *testing.T) {
	running(t, func(l *loop) { l.config.MinSyncPeriod = time.Second }, func(l *loop) {
		l.pass(2 * time.Second)
		l.taken()
		for i := range 100 {
			l.source.put(service(1+i), 1)
			l.pass(10 * time.Millisecond)
		}
		l.pass(time.Second)
		if n := len(l.taken()); n > 3 {
			t.Errorf("%d rounds", n)
		}
		l.has("vs 10.96.0.100:80/tcp rr")
	})
}

func TestAPIServerFirst(t *testing.T) {
	running(t, func(l *loop) {
		for i := range 50 {
			l.source.put(service(i+1), 1)
		}
		api := service(200)
		api.Name = apiServer
		l.source.put(api, 1)
		bound := 0
		l.addresses.Fail(func(r fake.AddressRequest) error {
			if r.Op == "bind" && bound == 0 {
				bound++
				if r.Addr != api.ClusterIPs[0] {
					l.Errorf("first bound: %v", r.Addr)
				}
				if n := strings.Count(l.ipvs.Dump(), "vs "); n != 1 {
					l.Errorf("%d servers before it", n)
				}
			}
			return nil
		})
	}, func(l *loop) { l.has("addr 10.96.0.200", fmt.Sprint("addr 10.96.0.", 50)) })
}

// TestEndIsNoFailure: what the end of the process broke off is not told as an error.
func TestEndIsNoFailure(t *testing.T) {
	var said strings.Builder
	f := newFailures(slog.New(slog.NewTextHandler(&said, nil)))
	f.tell(fmt.Errorf("iptables-save: %w", context.Canceled))
	if said.Len() != 0 {
		t.Errorf("said: %s", said.String())
	}
	if f.tell(errors.New("no memory")); !strings.Contains(said.String(), "no memory") {
		t.Errorf("said: %s", said.String())
	}
}
