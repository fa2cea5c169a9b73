package proxier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// reservations are what the loop asked for.
type reservations struct {
	mu    sync.Mutex
	asked [][]uint16
	err   error
}

func (r *reservations) reserve(_ context.Context, ports map[uint16]bool) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = append(r.asked, slices.Sorted(maps.Keys(ports)))
	return r.err == nil, r.err
}

func (r *reservations) take() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := fmt.Sprint(r.asked)
	r.asked = nil
	return text
}

func TestActiveNodePortsAreReserved(t *testing.T) {
	r := &reservations{}
	running(t, func(l *loop) {
		l.config.Reserve, l.config.Reconcile.SyncPeriod = r.reserve, 30*time.Second
		l.source.put(nodePort(1, 30001), 1)
	}, func(l *loop) {
		if got := r.take(); got != "[[30001]]" {
			t.Errorf("at the start %s", got)
		}
		l.source.put(service(2), 1)
		l.source.put(nodePort(1, 30001), 1, 2)
		l.pass(time.Second)
		if got := r.take(); got != "[]" {
			t.Errorf("without a change %s", got)
		}
		l.source.put(nodePort(3, 30003))
		udp := nodePort(4, 30001)
		udp.Ports[0].Protocol = ipvsutil.UDP
		l.source.put(udp, 1)
		l.pass(time.Second)
		if got := r.take(); got != "[[30001 30003]]" {
			t.Errorf("one more %s", got)
		}
		l.source.remove(udp.Name)
		l.source.remove(nodePort(3, 0).Name)
		l.pass(time.Second)
		if got := r.take(); got != "[[30001]]" {
			t.Errorf("one less %s", got)
		}
		l.pass(time.Minute)
		if got := r.take(); got == "[]" {
			t.Error("nobody looks whether others changed it")
		}
	})
}

// Where the setting cannot be written all else goes on, and it is said once.
func TestReservationThatFails(t *testing.T) {
	r := &reservations{err: errors.New("read-only file system")}
	running(t, func(l *loop) {
		l.config.Reserve, l.config.Reconcile.SyncPeriod = r.reserve, 30*time.Second
		l.source.put(nodePort(1, 30001), 1)
	}, func(l *loop) {
		l.pass(10 * time.Minute)
		for _, s := range l.taken() {
			if !s.Complete() {
				t.Fatalf("%+v", s)
			}
		}
		if said := l.log.take("read-only file system"); len(said) != 1 {
			t.Errorf("said %d times", len(said))
		}
		r.mu.Lock()
		r.asked, r.err = nil, nil
		r.mu.Unlock()
		l.pass(time.Minute)
		if got := r.take(); got == "[]" {
			t.Error("not tried again")
		}
	})
}

func TestLoopbackPortsAreTold(t *testing.T) {
	var mu sync.Mutex
	var told []string
	take := func() string {
		mu.Lock()
		defer mu.Unlock()
		text := fmt.Sprint(told)
		told = nil
		return text
	}
	running(t, func(l *loop) {
		l.config.Plan.LoopbackNodePorts = true
		l.config.Loopback = func(ports map[LoopbackKey]LoopbackTarget) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprint(ports))
		}
		l.source.put(nodePort(2, 30001), 1)
	}, func(l *loop) {
		if got := take(); got != "[map[{30001 false}:{default/s2 192.0.2.11:30001}]]" {
			t.Errorf("at the start %s", got)
		}
		l.source.put(nodePort(2, 30001), 1, 2)
		l.source.put(service(3), 1)
		l.pass(time.Second)
		if got := take(); got != "[]" {
			t.Errorf("without a change %s", got)
		}
		l.source.put(nodePort(1, 30001), 1)
		l.pass(time.Second)
		if got := take(); got != "[map[{30001 false}:{default/s1 192.0.2.11:30001}]]" {
			t.Errorf("an older Service of the same port %s", got)
		}
		l.source.remove(plan.ServiceName{Namespace: "default", Name: "s1"})
		l.pass(time.Second)
		l.host.mu.Lock()
		l.host.addrs = []netip.Addr{netip.MustParseAddr("192.0.2.12")}
		l.host.mu.Unlock()
		poke(l.host.changed)
		l.pass(time.Second)
		l.source.put(nodePort(2, 30001))
		l.pass(time.Second)
		if got := take(); got != "[map[{30001 false}:{default/s2 192.0.2.11:30001}] map[{30001 false}:{default/s2 192.0.2.12:30001}] map[]]" {
			t.Errorf("the younger one again, another address, no endpoint: %s", got)
		}
	})
}
