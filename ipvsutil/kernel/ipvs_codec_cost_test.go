package kernel

import (
	"math/rand/v2"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// batch are so many operations on real servers.
func batch(n int) []ipvsutil.Op {
	random := rand.New(rand.NewPCG(5, 6))
	ops := make([]ipvsutil.Op, n)
	for i := range ops {
		v := randomServer(random)
		ops[i] = ipvsutil.Op{Verb: ipvsutil.CreateRealServer, Server: v, Real: randomReal(random, v.Key)}
	}
	return ops
}

// Encoding a batch allocates the same whatever its size, decoding a server nothing but
// what it returns.
func TestIPVSCodecCost(t *testing.T) {
	k := &IPVS{}
	cost := func(n int) float64 {
		ops := batch(n)
		encode := func() { k.encode(ops, 0, n, func(_ int, err error) { t.Fatal(err) }) }
		encode()
		return testing.AllocsPerRun(10, encode)
	}
	if small, large := cost(chunk/8), cost(chunk); large > small+1 {
		t.Errorf("allocations of a batch of %d: %v, of %d: %v", chunk/8, small, chunk, large)
	}
	op := batch(1)[0]
	var body netlink.Attributes
	appendOp(&body, ipvsutil.Op{Verb: ipvsutil.CreateVirtualServer, Server: op.Server})
	if n := testing.AllocsPerRun(10, func() {
		if _, err := decodeVirtualServer(body, op.Server.Scheduler); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("decoding a virtual server takes %v allocations", n)
	}
}

func BenchmarkIPVSDecode(b *testing.B) {
	op := batch(1)[0]
	var server netlink.Attributes
	appendOp(&server, ipvsutil.Op{Verb: ipvsutil.CreateVirtualServer, Server: op.Server})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := decodeVirtualServer(server, op.Server.Scheduler); err != nil {
			b.Fatal(err)
		}
	}
}
