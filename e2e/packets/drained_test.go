//go:build kernel

package packets

import (
	"net/netip"
	"testing"
	"time"
)

func TestStatement88DrainedEndpointGoes(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm)})
	held := s.streams(v)
	v.endpoints = ready(Rm)
	s.apply(v)
	s.eachTCP(func(w way) {
		server, real := v.cluster(w), netip.AddrPortFrom(w.addr(L1), 8080)
		if weight := w.weight(server, real); weight != "0" {
			w.Fatalf("weight of L1 is %q while the stream is open, want 0", weight)
		}
		// The kernel remembers this for 10 s; an orderly end for two minutes.
		if err := held[w.f].Reset(); err != nil {
			w.Fatal(err)
		}
		const limit = 30 * time.Second
		for closed := time.Now(); w.weight(server, real) != ""; time.Sleep(200 * time.Millisecond) {
			if time.Since(closed) > limit {
				w.Fatalf("L1 is still there %v after the stream's end", limit)
			}
		}
	})
}
