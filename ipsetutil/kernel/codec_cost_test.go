package kernel

import (
	"math/rand/v2"
	"testing"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// message is one with so many additions to a set.
func message(s ipsetutil.Set, n int) (work, netlink.Attributes) {
	r := rand.New(rand.NewPCG(1, 2))
	w := work{changes: make([]ipsetutil.Change, n)}
	for i := range w.changes {
		w.changes[i].Member = ipsetutil.Member{Set: s.Name, Entry: randomEntry(r, s)}
	}
	return w, w.append(nil, span{set: s, to: n})
}

// Encoding allocates nothing once it has a buffer, decoding nothing beyond the map
// that it fills, however many entries there are.
func TestCodecCost(t *testing.T) {
	for _, s := range []ipsetutil.Set{ipsetutil.ClusterIP.For(false), ipsetutil.LoadBalancerSourceCIDR.For(true)} {
		w, body := message(s, maxEntries)
		if n := testing.AllocsPerRun(10, func() { body = w.append(body[:0], span{set: s, to: maxEntries}) }); n != 0 {
			t.Errorf("%s: encoding %d entries takes %v allocations", s.Name, maxEntries, n)
		}
		members := map[ipsetutil.Entry]uint32{}
		decode := func() {
			if err := decodeMembers(body, members); err != nil {
				t.Fatal(err)
			}
		}
		decode()
		if n := testing.AllocsPerRun(10, decode); n != 0 {
			t.Errorf("%s: decoding %d entries that are known takes %v allocations", s.Name, maxEntries, n)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, s := range map[string]ipsetutil.Set{
		"ip,port":      ipsetutil.ClusterIP.For(false),
		"ip,port,net6": ipsetutil.LoadBalancerSourceCIDR.For(true),
	} {
		_, body := message(s, maxEntries)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			members := map[ipsetutil.Entry]uint32{}
			for b.Loop() {
				if err := decodeMembers(body, members); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*maxEntries), "ns/entry")
		})
	}
}
