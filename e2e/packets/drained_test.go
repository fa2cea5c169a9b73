//go:build kernel

package packets

import (
	"net/netip"
	"testing"
	"time"
)

func TestStatement88DrainedEndpointGoes(t *testing.T) {
	s := begin(t)
	// A closed connection is remembered for two minutes, unless told otherwise.
	s.run("ipvsadm", "--set", "0", "2", "0")
	t.Cleanup(func() { s.run("ipvsadm", "--set", "0", "120", "0") })
	v := s.service(service{endpoints: ready(L1, Rm)})
	held := s.streams(v)
	v.endpoints = ready(Rm)
	s.apply(v)
	s.eachTCP(func(w way) {
		server, real := v.cluster(w), netip.AddrPortFrom(w.addr(L1), 8080)
		if weight := w.weight(server, real); weight != "0" {
			w.Fatalf("weight of L1 is %q while the stream is open, want 0", weight)
		}
		if err := held[w.f].Close(); err != nil {
			w.Fatal(err)
		}
		const limit = time.Minute
		for closed := time.Now(); w.weight(server, real) != ""; time.Sleep(200 * time.Millisecond) {
			if time.Since(closed) > limit {
				w.Fatalf("L1 is still there %v after the stream's end", limit)
			}
		}
	})
}
