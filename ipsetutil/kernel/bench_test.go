//go:build kernel

package kernel

import (
	"net/netip"
	"testing"

	"kube-ipvs-proxy/ipsetutil"
)

// manyChanges are changes of KUBE-CLUSTER-IP.
func manyChanges(del bool) []ipsetutil.Change {
	changes := make([]ipsetutil.Change, many)
	for i := range changes {
		changes[i] = ipsetutil.Change{Delete: del, Member: ipsetutil.Member{Set: "KUBE-CLUSTER-IP", Entry: ipsetutil.Entry{
			Addr: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Protocol: 6, Port: 443,
		}}}
	}
	return changes
}

func perEntry(b *testing.B, n int) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/entry")
}

// many is the size of the benchmarks.
const many = 20000

// BenchmarkAdd20000 fills an empty set, growth of the hash included.
func BenchmarkAdd20000(b *testing.B) {
	c := open(b)
	adds := manyChanges(false)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		if err := c.Destroy(b.Context(), "KUBE-CLUSTER-IP"); err != nil {
			b.Fatal(err)
		}
		if err := c.Create(b.Context(), ipsetutil.ClusterIP.For(false)); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if errs := c.Do(b.Context(), adds); errs != nil {
			b.Fatal(errs[0])
		}
	}
	perEntry(b, many)
}

// BenchmarkAddDelete20000 deletes and adds in a set that has grown.
func BenchmarkAddDelete20000(b *testing.B) {
	c := open(b)
	if err := c.Create(b.Context(), ipsetutil.ClusterIP.For(false)); err != nil {
		b.Fatal(err)
	}
	adds, deletes := manyChanges(false), manyChanges(true)
	b.ReportAllocs()
	for b.Loop() {
		if errs := c.Do(b.Context(), adds); errs != nil {
			b.Fatal(errs[0])
		}
		if errs := c.Do(b.Context(), deletes); errs != nil {
			b.Fatal(errs[0])
		}
	}
	perEntry(b, 2*many)
}

// BenchmarkAddOneByOne is the worst order: two sets in turn, a message for each change.
func BenchmarkAddOneByOne(b *testing.B) {
	c := open(b)
	for _, k := range []ipsetutil.Kind{ipsetutil.ClusterIP, ipsetutil.ExternalIP} {
		if err := c.Create(b.Context(), k.For(false)); err != nil {
			b.Fatal(err)
		}
	}
	adds := manyChanges(false)
	for i := range adds {
		if i%2 == 1 {
			adds[i].Member.Set = "KUBE-EXTERNAL-IP"
		}
	}
	for b.Loop() {
		if errs := c.Do(b.Context(), adds); errs != nil {
			b.Fatal(errs[0])
		}
	}
	perEntry(b, many)
}

// BenchmarkDeleteMissing20000 is the most failures there can be.
func BenchmarkDeleteMissing20000(b *testing.B) {
	c := open(b)
	if err := c.Create(b.Context(), ipsetutil.ClusterIP.For(false)); err != nil {
		b.Fatal(err)
	}
	deletes := manyChanges(true)
	for b.Loop() {
		for i, err := range c.Do(b.Context(), deletes) {
			if err == nil {
				b.Fatalf("change %d succeeded", i)
			}
		}
	}
	perEntry(b, many)
}

func BenchmarkMembers20000(b *testing.B) {
	c := open(b)
	if err := c.Create(b.Context(), ipsetutil.ClusterIP.For(false)); err != nil {
		b.Fatal(err)
	}
	if errs := c.Do(b.Context(), manyChanges(false)); errs != nil {
		b.Fatal(errs[0])
	}
	b.ReportAllocs()
	for b.Loop() {
		if m, err := c.Members(b.Context(), "KUBE-CLUSTER-IP"); err != nil || len(m) != many {
			b.Fatal(len(m), err)
		}
	}
	perEntry(b, many)
}

func BenchmarkHeaders(b *testing.B) {
	c := open(b)
	for _, s := range ipsetutil.All() {
		if err := c.Create(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if h, err := c.Headers(b.Context()); err != nil || len(h) != len(ipsetutil.All()) {
			b.Fatal(len(h), err)
		}
	}
}
