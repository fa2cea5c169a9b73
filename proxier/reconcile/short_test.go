package reconcile

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"kube-ipvs-proxy/ipvsutil"
)

// shortList is a door whose lists of servers lack some, as the kernel's do while
// another process changes servers.
type shortList struct {
	ipvsutil.IPVS
	random *rand.Rand
	in     int // one of so many is missing; zero: none
}

func (d *shortList) VirtualServers(ctx context.Context) ([]ipvsutil.VirtualServer, error) {
	list, err := d.IPVS.VirtualServers(ctx)
	var short []ipvsutil.VirtualServer
	for _, s := range list {
		if d.in == 0 || d.random.IntN(d.in) != 0 {
			short = append(short, s)
		}
		if d.in != 0 && d.random.IntN(d.in) == 0 {
			short = append(short, s) // and some come twice
		}
	}
	return short, err
}

// Nothing good goes because of a short list, lingering servers included, and in the
// end everything is right.
func TestShortLists(t *testing.T) {
	for seed := range uint64(20) {
		refreshing(t, func(w *world) {
			door := &shortList{IPVS: w.Reconciler.doors.IPVS, random: newRandom(t, seed)}
			w.Reconciler.doors.IPVS = door
			s := w.put(newService(1).with(1, 2))
			w.put(newService(3).with(3))
			list := w.few()
			w.settle()
			w.busy(web, pod1, 1)
			w.remove(s)
			w.wait(10 * time.Second)
			door.in = 5
			for i := range 20 {
				w.put(list[i%len(list)].with(i, i+1))
				time.Sleep(w.round().RetryIn)
				w.Doubt()
			}
			w.wantWeight(web, pod1, "w0")
			if _, lingers := w.lingers.servers[web]; !lingers {
				t.Error("the lingering server is forgotten")
			}
			door.in = 0
			w.Doubt()
			w.wait(2 * time.Minute)
			w.equal(lingeringWeb...)
		})
	}
}
