package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/fake"
	"kube-ipvs-proxy/proxier/plan"
)

// refreshing is a world that looks for damage at the standard periods.
func refreshing(t *testing.T, test func(w *world)) {
	bubble(t, func(w *world) {
		w.config.SyncPeriod, w.config.RefreshPeriod = 0, 0
		w.start()
		test(w)
	})
}

// strange makes changes as another hand does; what is gone already is none.
func (w *world) strange(changes ...ipsetutil.Change) {
	for _, err := range w.sets.Do(context.Background(), changes) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.t.Fatal(err)
		}
	}
}

// damages are what others do, by name; and how long it may take until it is found.
var damages = map[string]struct {
	do     func(w *world)
	within time.Duration
	repair string // kind
}{
	"ipvsadm -C": {func(w *world) {
		for key := range maps.Clone(w.seen.servers) {
			w.ipvs.Remove(key)
		}
	}, 6 * time.Second, "virtual_server"},
	"server deleted": {func(w *world) { w.ipvs.Remove(web) }, 31 * time.Second, "virtual_server"},
	"other scheduler": {func(w *world) {
		w.ipvs.Put(ipvsutil.VirtualServer{Key: web, Scheduler: "wlc"})
	}, 31 * time.Second, "virtual_server"},
	"persistence": {func(w *world) {
		w.ipvs.Put(ipvsutil.VirtualServer{Key: web, Scheduler: "rr", Persistence: 60})
	}, 31 * time.Second, "virtual_server"},
	"own server added": {func(w *world) {
		w.ipvs.Put(ipvsutil.VirtualServer{Key: key("10.96.0.1:8443", ipvsutil.TCP), Scheduler: "rr"})
	}, 31 * time.Second, "virtual_server"},
	"weight changed": {func(w *world) {
		w.ipvs.PutReal(web, ipvsutil.RealServerState{RealServer: ipvsutil.RealServer{Addr: pod1, Weight: 7}})
	}, 10*time.Minute + 5*time.Second, "real_server"},
	"forwarding changed": {func(w *world) {
		w.ipvs.PutReal(web, ipvsutil.RealServerState{RealServer: ipvsutil.RealServer{Addr: pod1, Weight: 1, Foreign: true}})
	}, 10*time.Minute + 5*time.Second, "real_server"},
	"real server deleted": {func(w *world) { w.ipvs.RemoveReal(web, pod1) }, 10*time.Minute + 5*time.Second, "real_server"},
	"real server added": {func(w *world) {
		w.ipvs.PutReal(web, ipvsutil.RealServerState{RealServer: ipvsutil.RealServer{
			Addr: netip.MustParseAddrPort("10.244.9.9:80"), Weight: 1,
		}})
	}, 10*time.Minute + 40*time.Second, "real_server"},
	"member deleted": {func(w *world) {
		w.strange(ipsetutil.Change{Delete: true, Member: plan.MemberOf(ipsetutil.ClusterIP, web)})
	}, 31 * time.Second, "member"},
	"set flushed": {func(w *world) {
		entries, _ := w.sets.Members(context.Background(), ipsetutil.ClusterIP.Name(false))
		for e := range entries {
			w.strange(ipsetutil.Change{Delete: true, Member: ipsetutil.Member{Set: ipsetutil.ClusterIP.Name(false), Entry: e}})
		}
	}, 6 * time.Second, "member"},
	"set destroyed, and rules gone": {func(w *world) {
		_ = w.sets.Destroy(context.Background(), ipsetutil.DropAll.Name(false)) // it is empty
		w.rules.there, w.rules.fault = false, func() error {
			_, err := w.sets.Header(context.Background(), ipsetutil.DropAll.Name(false))
			return err
		}
		w.RulesChanged()
	}, 2 * time.Second, "rules"},
	"member exchanged": {func(w *world) {
		w.strange(ipsetutil.Change{Delete: true, Member: plan.MemberOf(ipsetutil.ClusterIP, web)},
			ipsetutil.Change{Member: plan.MemberOf(ipsetutil.ClusterIP, key("10.96.0.1:81", ipvsutil.TCP))})
	}, 10*time.Minute + 5*time.Second, "member"},
	"mark changed": {func(w *world) {
		w.strange(ipsetutil.Change{
			Member: plan.MemberOf(ipsetutil.ShortCircuit, key("203.0.113.5:80", ipvsutil.TCP)), Mark: 99,
		})
	}, 10*time.Minute + 5*time.Second, "member"},
	"set destroyed": {func(w *world) {
		_ = w.sets.Destroy(context.Background(), ipsetutil.ClusterIP.Name(false))
	}, 6 * time.Second, "set"},
	"device deleted": {func(w *world) {
		_ = w.addresses.RemoveDevice(context.Background())
		w.DeviceLost()
	}, time.Second, "address"},
	"rule of routes deleted": {func(w *world) {
		_ = w.addresses.RemoveRules(context.Background())
		w.DeviceLost()
	}, time.Second, ""},
	"address deleted": {func(w *world) {
		w.addresses.Unbind(context.Background(), addrs("10.96.0.1"))
		w.Unbound(addrs("10.96.0.1"))
	}, time.Second, "address"},
	"address deleted, and nobody told": {func(w *world) {
		w.addresses.Unbind(context.Background(), addrs("10.96.0.1"))
	}, 10*time.Minute + 31*time.Second, "address"},
	"address deleted, and nobody tells": {func(w *world) {
		w.Reconciler.config.ListBound = true
		w.addresses.Unbind(context.Background(), addrs("10.96.0.1"))
	}, 31 * time.Second, "address"},
	"address added": {func(w *world) {
		w.addresses.Bind(context.Background(), addrs("10.96.9.9"))
	}, 10*time.Minute + 31*time.Second, "address"},
	"route deleted": {func(w *world) { w.addresses.Release(context.Background(), addrs("203.0.113.5")) }, 31 * time.Second, "route"},
	"rules flushed": {func(w *world) { w.rules.there = false }, 10*time.Minute + time.Second, "rules"},
}

func TestDamageIsRepaired(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			refreshing(t, func(w *world) {
				w.sample()
				w.put(newService(1).with(1, 2))
				w.settle()
				time.Sleep(17 * time.Second)
				w.round()
				damage.do(w)
				repairs := 0
				for end := time.Now().Add(damage.within); time.Now().Before(end); {
					report := w.round()
					if report.Failures > 0 && w.rules.fault == nil {
						t.Error(report.Err())
					}
					repairs += report.Repairs[damage.repair]
					time.Sleep(min(report.RetryIn, time.Until(end)))
				}
				repairs += w.round().Repairs[damage.repair]
				w.equal()
				if !w.rules.there {
					t.Error("the rules are still gone")
				}
				if (repairs == 0) == (damage.repair != "") {
					t.Errorf("%d repairs of %q", repairs, damage.repair)
				}
				end := time.Now().Add(11 * time.Minute)
				w.resetCounts()
				for time.Now().Before(end) {
					report := w.round()
					if len(report.Repairs) > 0 || report.Ops > 0 {
						t.Fatalf("said or done again: %v %v", report.Repaired, report.Operations)
					}
					time.Sleep(report.RetryIn)
				}
			})
		})
	}
}

// What errors tell is found without waiting for a refresh, and is a repair too.
func TestDamageFoundByAnError(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.settle()
		w.ipvs.Remove(web)
		w.addresses.Unbind(t.Context(), addrs("10.96.0.1"))
		w.put(s.with(1, 2, 3))
		report := w.round()
		if report.Pending != 0 || report.Repairs["virtual_server"] != 1 {
			t.Errorf("%+v", report)
		}
		w.DeviceLost()
		if report := w.round(); report.Repairs["address"] != 1 || report.Repairs["virtual_server"] != 0 {
			t.Errorf("%+v", report)
		}
		w.equal()
	})
}

// A repair counts when it is done, once.
func TestRepairThatFailsAtFirst(t *testing.T) {
	bubble(t, func(w *world) {
		w.put(newService(1).with(1, 2))
		w.settle()
		w.ipvs.Remove(web)
		w.Doubt()
		w.ipvs.Fail(func(r fake.IPVSRequest) error {
			if r.Op.Verb == ipvsutil.CreateVirtualServer {
				return syscall.ENOMEM
			}
			return nil
		})
		report := w.round()
		if len(report.Repairs) != 0 || report.Classes[classBusy] == 0 {
			t.Errorf("%+v", report)
		}
		w.ipvs.Fail(nil)
		time.Sleep(report.RetryIn)
		if report := w.round(); report.Repairs["virtual_server"] != 1 || len(report.Repaired) == 0 {
			t.Errorf("%+v", report)
		}
		w.equal()
	})
}

// A lost answer is no damage by others.
func TestLostAnswerIsNoRepair(t *testing.T) {
	bubble(t, func(w *world) {
		s := w.put(newService(1).with(1, 2))
		w.settle()
		w.ipvs.LoseNth(1)
		w.put(s.with(1, 2, 3))
		if report := w.round(); len(report.Repairs) != 0 || report.Failures != 1 || report.Pending != 0 {
			t.Errorf("%+v", report)
		}
		w.equal()
	})
}

// The rules are looked at soon after somebody changed some, and seldom when that
// goes on.
func TestRulesAreLookedAtWhenTold(t *testing.T) {
	bubble(t, func(w *world) {
		w.sample()
		w.settle()
		w.wait(time.Minute)
		w.rules.there = false
		w.RulesChanged()
		w.wait(100 * time.Millisecond)
		if !w.rules.there {
			t.Error("not mended within 100 ms")
		}
		before := w.rules.ensured
		for range 600 {
			w.RulesChanged()
			w.wait(100 * time.Millisecond)
		}
		if looks := w.rules.ensured - before; looks < 6 || looks > 12 {
			t.Errorf("looked %d times in a minute", looks)
		}
	})
}

// Rules that cannot be written at first hold everything back; later they do not.
func TestNoServerBeforeTheRules(t *testing.T) {
	bubble(t, func(w *world) {
		w.sample()
		w.rules.err = errFlows
		report := w.round()
		if report.Pending == 0 || w.ipvs.Dump() != "" || w.addresses.Dump() != "" {
			t.Errorf("%+v\n%s%s", report, w.ipvs.Dump(), w.addresses.Dump())
		}
		w.rules.err = nil
		w.settle()
		w.equal()
		w.rules.err = errFlows
		w.Doubt()
		w.put(newService(30).with(1))
		w.round()
		w.equal()
	})
}

// hurt does one random damage.
func (w *world) hurt(random *rand.Rand) {
	switch random.IntN(4) {
	case 0:
		keys := sortedKeys(keysOf(w.seen.servers))
		if len(keys) > 0 {
			w.ipvs.Remove(keys[random.IntN(len(keys))])
		}
	case 1:
		for range 5 {
			set := ipsetutil.All()[random.IntN(len(ipsetutil.All()))]
			entries, _ := w.sets.Members(context.Background(), set.Name)
			for e := range entries {
				w.strange(ipsetutil.Change{Delete: true, Member: ipsetutil.Member{Set: set.Name, Entry: e}})
				break
			}
		}
	default:
		names := slices.Sorted(maps.Keys(damages))
		damage := damages[names[random.IntN(len(names))]]
		if strings.Contains(w.ipvs.Dump(), "vs "+web.String()) {
			damage.do(w)
		}
	}
}

func keysOf[K comparable, V any](m map[K]V) map[K]struct{} {
	keys := map[K]struct{}{}
	for key := range m {
		keys[key] = struct{}{}
	}
	return keys
}

// foreign makes things of others, of every kind that may be taken for ours.
func (w *world) foreign() []string {
	others := ipvsutil.VirtualServer{Key: key("203.0.113.200:80", ipvsutil.TCP), Scheduler: "wlc"}
	marked := ipvsutil.VirtualServer{Key: ipvsutil.MarkKey(16000, false), Scheduler: "rr"}
	node := ipvsutil.VirtualServer{Key: key("192.0.2.11:7000", ipvsutil.TCP), Scheduler: "rr"}
	for _, s := range []ipvsutil.VirtualServer{others, marked, node} {
		w.ipvs.Put(s)
		w.ipvs.PutReal(s.Key, ipvsutil.RealServerState{RealServer: ipvsutil.RealServer{
			Addr: netip.MustParseAddrPort("198.51.100.7:80"), Weight: 3,
		}})
	}
	set := ipsetutil.Set{Name: "OTHERS", Type: ipsetutil.HashIP, Family: ipsetutil.IPv4, MaxElem: 10}
	if err := w.sets.Create(w.t.Context(), set); err != nil {
		w.t.Fatal(err)
	}
	w.strange(ipsetutil.Change{Member: ipsetutil.Member{Set: "OTHERS", Entry: ipsetutil.Entry{Addr: netip.MustParseAddr("10.0.0.1")}}})
	return strings.Split(strings.TrimSpace(w.dump()), "\n")
}

func TestForeignThingsAreNeverTouched(t *testing.T) {
	refreshing(t, func(w *world) {
		foreign := w.foreign()
		list := w.sample()
		w.settle()
		w.equal(foreign...)
		for _, s := range list {
			w.remove(s)
		}
		for range 700 {
			time.Sleep(w.round().RetryIn)
		}
		w.equal(foreign...)
		for _, line := range w.guard.history {
			if strings.Contains(line, "203.0.113.200") || strings.Contains(line, "fwm 16000") ||
				strings.Contains(line, ":7000") || strings.Contains(line, "OTHERS") {
				t.Error(line)
			}
		}
	})
}
