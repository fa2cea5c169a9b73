package reconcile

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
)

// The time to the next try doubles from the first to the last value.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 60 * time.Second
)

// attempt is something that failed and is tried again.
type attempt struct {
	failures int
	since    time.Time // first failure
	at       time.Time // next try
}

// failed is the attempt after one more failure. The wait has some chance in it, so
// that many keys that failed together are not tried together for ever.
func (a attempt) failed(now time.Time) attempt {
	if a.failures == 0 {
		a.since = now
	}
	wait := min(firstRetry<<min(a.failures, 10), lastRetry)
	a.failures++
	a.at = now.Add(wait - time.Duration(rand.Int64N(int64(wait)/4)))
	return a
}

// together is how much before its time a key is tried with others, so that many do
// not make a round each.
const together = 25 * time.Millisecond

func (a attempt) due(now time.Time) bool { return a.failures > 0 && !now.Add(together).Before(a.at) }

// attempts are the keys of one kind that failed.
type attempts[K comparable] map[K]attempt

// due adds the keys whose time has come to keys.
func (a attempts[K]) due(now time.Time, keys map[K]struct{}) map[K]struct{} {
	for key, of := range a {
		if of.due(now) {
			keys = set(keys, key)
		}
	}
	return keys
}

// forget ends the waiting of keys that changed.
func (a attempts[K]) forget(keys map[K]struct{}) {
	if len(a) == 0 {
		return
	}
	for key := range keys {
		delete(a, key)
	}
}

// settle takes down what became of the keys that were worked on.
func (a attempts[K]) settle(worked, failed map[K]struct{}, now time.Time) {
	if len(a) > 0 {
		for key := range worked {
			if !has(failed, key) {
				delete(a, key)
			}
		}
	}
	for key := range failed {
		a[key] = a[key].failed(now)
	}
}

func (a attempts[K]) next(times *times) {
	for _, of := range a {
		times.next(of.at)
		times.since(of.since)
	}
}

// failing holds the attempts of all kinds of keys. Each key waits for itself, so
// that one that fails for ever delays no other.
type failing struct {
	servers         attempts[ipvsutil.Key]
	members         attempts[ipsetutil.Member]
	bound, captured attempts[netip.Addr]
}

func newFailing() failing {
	return failing{
		servers: attempts[ipvsutil.Key]{}, members: attempts[ipsetutil.Member]{},
		bound: attempts[netip.Addr]{}, captured: attempts[netip.Addr]{},
	}
}

func (f failing) due(now time.Time, work *ledger.Touched) {
	work.Servers = f.servers.due(now, work.Servers)
	work.Members = f.members.due(now, work.Members)
	work.Bound = f.bound.due(now, work.Bound)
	work.Captured = f.captured.due(now, work.Captured)
}

func (f failing) forget(touched ledger.Touched) {
	f.servers.forget(touched.Servers)
	f.members.forget(touched.Members)
	f.bound.forget(touched.Bound)
	f.captured.forget(touched.Captured)
}

func (f failing) settle(worked, failed ledger.Touched, now time.Time) {
	f.servers.settle(worked.Servers, failed.Servers, now)
	f.members.settle(worked.Members, failed.Members, now)
	f.bound.settle(worked.Bound, failed.Bound, now)
	f.captured.settle(worked.Captured, failed.Captured, now)
}

func (f failing) len() int {
	return len(f.servers) + len(f.members) + len(f.bound) + len(f.captured)
}

func (f failing) next(times *times) {
	f.servers.next(times)
	f.members.next(times)
	f.bound.next(times)
	f.captured.next(times)
}

// times finds the earliest of many times.
type times struct{ at, oldest time.Time }

func (t *times) next(at time.Time) {
	if !at.IsZero() && (t.at.IsZero() || at.Before(t.at)) {
		t.at = at
	}
}

func (t *times) since(since time.Time) {
	if !since.IsZero() && (t.oldest.IsZero() || since.Before(t.oldest)) {
		t.oldest = since
	}
}
