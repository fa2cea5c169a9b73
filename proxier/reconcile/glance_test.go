package reconcile

import (
	"context"
	"fmt"
	"testing"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// resting is a world at rest without a refresh period, in one family or two.
func resting(t *testing.T, services, families int, test func(w *world)) {
	bubble(t, func(w *world) {
		w.config.SyncPeriod = 0
		w.start()
		w.doors.IPVS = counting{w.doors.IPVS.(guardedIPVS), new(int)}
		for i := range services {
			s := newService(i).with(i, i+1)
			s.ClusterIPs = s.ClusterIPs[:families]
			w.put(s)
		}
		w.settle()
		w.resetCounts()
		w.sets.ResetCounts()
		test(w)
	})
}

// doze passes a time as the loop does, and returns how many rounds that took.
func (w *world) doze(d time.Duration) (rounds int) {
	end, wait := time.Now().Add(d), time.Duration(0)
	for time.Now().Before(end) {
		if wait = w.Rest(w.t.Context()); wait == 0 {
			wait = w.round().RetryIn
			rounds++
		}
		time.Sleep(wait)
	}
	return rounds
}

// At rest the kernel is asked the same few things, however many Services there are, and
// rounds run only for what is due in a sync period.
func TestRestCostsTheSameAtEachSize(t *testing.T) {
	asked := func(services int) (text string) {
		resting(t, services, 1, func(w *world) {
			rounds := w.doze(10 * time.Minute)
			if rounds < 18 || rounds > 22 {
				t.Errorf("%d rounds in ten minutes", rounds)
			}
			text = fmt.Sprintf("%d rounds, ipvs %+v, sets %+v, addresses %+v", rounds, w.ipvs.Counts(), w.sets.Counts(), w.addresses.Counts())
			if n := w.ipvs.Counts().ListVirtual + w.ipvs.Counts().ListReal + w.addresses.Counts().List; n != 0 {
				t.Errorf("listed: %s", text)
			}
		})
		return text
	}
	few, many := asked(10), asked(1000)
	if few != many {
		t.Errorf("with 10 Services %s\nwith 1,000 %s", few, many)
	}
}

// What is wiped out is put back after the next glance, in both families.
func TestGlanceFindsWhatIsWipedOut(t *testing.T) {
	for name, damage := range map[string]func(w *world){
		"all servers": func(w *world) {
			for key := range keysOf(w.seen.servers) {
				w.ipvs.Remove(key)
			}
		},
		"servers of IPv6": func(w *world) {
			for key := range keysOf(w.seen.servers) {
				if key.IsIPv6() {
					w.ipvs.Remove(key)
				}
			}
		},
		"one server of IPv4": func(w *world) { w.ipvs.Remove(key("10.96.0.7:80", ipvsutil.TCP)) },
		"a set's entries": func(w *world) {
			name := ipsetutil.ClusterIP.Name(true)
			entries, _ := w.sets.Members(context.Background(), name)
			for e := range entries {
				w.strange(ipsetutil.Change{Delete: true, Member: ipsetutil.Member{Set: name, Entry: e}})
			}
		},
		"a set": func(w *world) { _ = w.sets.Destroy(context.Background(), ipsetutil.ClusterIP.Name(false)) },
	} {
		t.Run(name, func(t *testing.T) {
			resting(t, 50, 2, func(w *world) {
				w.doze(2 * time.Minute)
				damage(w)
				w.doze(6 * time.Second)
				w.equal()
			})
		})
	}
}

// While something is undone or in doubt, rounds go on.
func TestRestWaitsForWhatIsUndone(t *testing.T) {
	resting(t, 5, 1, func(w *world) {
		if w.Rest(t.Context()) == 0 {
			t.Fatal("a round at rest")
		}
		w.DeviceLost()
		if wait := w.Rest(t.Context()); wait != 0 {
			t.Errorf("in doubt it rests for %v", wait)
		}
		w.round()
		w.RulesChanged()
		time.Sleep(settleRules)
		if wait := w.Rest(t.Context()); wait != 0 {
			t.Errorf("with rules to look at it rests for %v", wait)
		}
		w.round()
		w.rules.err = errFlows
		w.EnsureRules()
		w.round()
		if wait := w.Rest(t.Context()); wait != 0 {
			t.Errorf("with rules that fail it rests for %v", wait)
		}
	})
}
