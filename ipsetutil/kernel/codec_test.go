package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"
	"testing"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

func golden(t *testing.T, name string, got []byte, parts ...[]byte) {
	t.Helper()
	if want := bytes.Join(parts, nil); !bytes.Equal(got, want) {
		t.Errorf("%s:\ngot  % x\nwant % x", name, got, want)
	}
}

// b is a shorthand for bytes of a golden message.
func b(v ...byte) []byte { return v }

// text is an attribute of text with its padding.
func text(kind byte, s string) []byte {
	v := append([]byte{byte(len(s) + 5), 0, kind, 0}, s...)
	v = append(v, 0)
	for len(v)%4 != 0 {
		v = append(v, 0)
	}
	return v
}

func TestGolden(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Fatal("the golden bytes are those of a little-endian machine")
	}
	head := b(2, 0, 0, 0, 5, 0, 1, 0, 6, 0, 0, 0)
	hash := ipsetutil.Set{Name: "S", Type: ipsetutil.HashIPPort, Family: ipsetutil.IPv4, MaxElem: 65536, Marks: true}
	golden(t, "create hash", encodeCreate(hash, 5),
		head, text(2, "S"), text(3, "hash:ip,port"),
		b(5, 0, 4, 0, 5, 0, 0, 0), b(5, 0, 5, 0, 2, 0, 0, 0),
		b(28, 0, 7, 0x80), b(8, 0, 18, 0x40, 0, 0, 4, 0), b(8, 0, 19, 0x40, 0, 1, 0, 0), b(8, 0, 8, 0x40, 0, 0, 0, 0x40))
	golden(t, "create bitmap", encodeCreate(ipsetutil.Set{Name: "B", Type: ipsetutil.BitmapPort}, 3),
		head, text(2, "B"), text(3, "bitmap:port"),
		b(5, 0, 4, 0, 3, 0, 0, 0), b(5, 0, 5, 0, 0, 0, 0, 0),
		b(20, 0, 7, 0x80), b(6, 0, 4, 0x40, 0, 0, 0, 0), b(6, 0, 5, 0x40, 0xff, 0xff, 0, 0))
	golden(t, "type", encodeType(ipsetutil.HashIP, ipsetutil.IPv6), head, text(3, "hash:ip"), b(5, 0, 5, 0, 10, 0, 0, 0))
	golden(t, "names", encodeList("", flagListNames), head, b(8, 0, 6, 0x40, 0, 0, 0, 2))
	golden(t, "list", encodeList("S", 0), head, text(2, "S"))
	golden(t, "swap", encodeSwap("S", "T"), head, text(2, "S"), text(3, "T"))

	e := ipsetutil.Entry{Addr: netip.MustParseAddr("10.96.0.1"), Protocol: 6, Port: 0x1234}
	golden(t, "entry with mark",
		appendEntry(nil, hash, ipsetutil.Change{Member: ipsetutil.Member{Set: "S", Entry: e}, Mark: 0x20001}, 7),
		b(52, 0, 7, 0x80), b(12, 0, 1, 0x80, 8, 0, 1, 0x40, 10, 96, 0, 1), b(6, 0, 4, 0x40, 0x12, 0x34, 0, 0), b(5, 0, 7, 0, 6, 0, 0, 0),
		b(12, 0, 27, 0x40, 0, 2, 0, 1, 255, 255, 255, 255), b(8, 0, 9, 0, 7, 0, 0, 0))
	golden(t, "bitmap entry",
		appendEntry(nil, ipsetutil.Set{Type: ipsetutil.BitmapPort}, ipsetutil.Change{Member: ipsetutil.Member{Entry: ipsetutil.Entry{Port: 0x1234}}}, 0),
		b(12, 0, 7, 0x80), b(6, 0, 4, 0x40, 0x12, 0x34, 0, 0))
	e.Source = netip.MustParsePrefix("10.0.0.0/8")
	net := ipsetutil.Set{Type: ipsetutil.HashIPPortNet, Family: ipsetutil.IPv4}
	golden(t, "entry with source",
		appendEntry(nil, net, ipsetutil.Change{Delete: true, Member: ipsetutil.Member{Entry: e}}, 0),
		b(52, 0, 7, 0x80), b(12, 0, 1, 0x80, 8, 0, 1, 0x40, 10, 96, 0, 1), b(6, 0, 4, 0x40, 0x12, 0x34, 0, 0), b(5, 0, 7, 0, 6, 0, 0, 0),
		b(12, 0, 20, 0x80, 8, 0, 1, 0x40, 10, 0, 0, 0), b(5, 0, 21, 0, 8, 0, 0, 0))
	v6 := ipsetutil.Entry{Addr: netip.MustParseAddr("fd00::1")}
	golden(t, "IPv6 entry",
		appendEntry(nil, ipsetutil.Set{Type: ipsetutil.HashIP, Family: ipsetutil.IPv6}, ipsetutil.Change{Member: ipsetutil.Member{Entry: v6}}, 0),
		b(28, 0, 7, 0x80), b(24, 0, 1, 0x80, 20, 0, 1+1, 0x40, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1))
}

// randomEntry fits the set.
func randomEntry(r *rand.Rand, s ipsetutil.Set) ipsetutil.Entry {
	if s.Type == ipsetutil.BitmapPort {
		return ipsetutil.Entry{Port: uint16(r.Uint32())}
	}
	address := func() netip.Addr {
		var v [16]byte
		for i := range v {
			v[i] = byte(r.Uint32()) | 1 // never unspecified
		}
		if s.Family == ipsetutil.IPv4 {
			return netip.AddrFrom4([4]byte(v[:4]))
		}
		return netip.AddrFrom16(v)
	}
	e := ipsetutil.Entry{Addr: address()}
	if s.Type == ipsetutil.HashIP {
		return e
	}
	e.Protocol, e.Port = []uint8{6, 17, 132}[r.IntN(3)], uint16(r.Uint32())
	a := address()
	switch s.Type {
	case ipsetutil.HashIPPortIP:
		e.Source = netip.PrefixFrom(a, a.BitLen())
	case ipsetutil.HashIPPortNet:
		e.Source = netip.PrefixFrom(a, 1+r.IntN(a.BitLen())).Masked()
	}
	return e
}

// What is sent as an add is, apart from the line number, what the kernel lists, so
// decoding it gives the entries again.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range ipsetutil.All() {
		w := work{sets: map[string]found{s.Name: {set: s}}}
		want := map[ipsetutil.Entry]uint32{}
		for range 200 {
			c := ipsetutil.Change{Member: ipsetutil.Member{Set: s.Name, Entry: randomEntry(r, s)}}
			if s.Marks {
				c.Mark = r.Uint32() &^ 1
			}
			if err := s.Check(c); err != nil {
				t.Fatal(err)
			}
			want[c.Member.Entry] = c.Mark
			w.changes = append(w.changes, c)
		}
		body := w.append(nil, span{set: s, to: len(w.changes)})
		got := map[ipsetutil.Entry]uint32{}
		if err := decodeMembers(body, got); err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d of %d entries", s.Name, len(got), len(want))
		}
		for e, mark := range want {
			if m, ok := got[e]; !ok || m != mark {
				t.Errorf("%s: %v has mark %#x (there: %v), want %#x", s.Name, e, m, ok, mark)
			}
		}
	}
}

// The largest message is within the bounds of an attribute, which panics beyond.
func TestLargestMessage(t *testing.T) {
	s := ipsetutil.Set{Name: "1234567890123456789012345678901", Type: ipsetutil.HashIPPortNet, Family: ipsetutil.IPv6, MaxElem: 1, Marks: true}
	e := randomEntry(rand.New(rand.NewPCG(1, 2)), s)
	w := work{changes: make([]ipsetutil.Change, 10*maxEntries), sets: map[string]found{s.Name: {set: s}}}
	for i := range w.changes {
		w.changes[i].Member = ipsetutil.Member{Set: s.Name, Entry: e}
	}
	now, rest := batch(nil, w.split(), maxEntries)
	if len(now) != 1 || len(rest) != 1 {
		t.Fatalf("now %v, then %v", now, rest)
	}
	if n := len(w.append(nil, now[0])); n > 60000 {
		t.Errorf("message of %d bytes", n)
	}
}

func TestDecodeHeader(t *testing.T) {
	for _, s := range ipsetutil.All() {
		h, err := decodeHeader(encodeCreate(s, 1))
		if err != nil || h.Set != s {
			t.Errorf("header %+v, want %+v, error %v", h.Set, s, err)
		}
	}
}

func TestDecodeTruncated(t *testing.T) {
	s := ipsetutil.LoadBalancerSourceCIDR.For(true)
	w := work{changes: []ipsetutil.Change{{Member: ipsetutil.Member{Set: s.Name, Entry: randomEntry(rand.New(rand.NewPCG(1, 2)), s)}}}}
	body := w.append(nil, span{set: s, to: 1})
	whole := map[ipsetutil.Entry]uint32{}
	if err := decodeMembers(body, whole); err != nil || len(whole) != 1 {
		t.Fatalf("%v, error %v", whole, err)
	}
	// A list that ends within the entries is an error, not a shorter list.
	for n := len(body) - 1; n > len(body)-80; n-- {
		got := map[ipsetutil.Entry]uint32{}
		if err := decodeMembers(body[:n], got); !errors.Is(err, netlink.ErrTruncated) || len(got) != 0 {
			t.Errorf("%d of %d bytes: %v, error %v", n, len(body), got, err)
		}
	}
}

// Whatever comes from the socket, decoding ends and does not panic.
func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range ipsetutil.All() {
		w := work{changes: []ipsetutil.Change{{Member: ipsetutil.Member{Set: s.Name, Entry: randomEntry(r, s)}, Mark: 7}}}
		f.Add([]byte(w.append(nil, span{set: s, to: 1})))
		f.Add(encodeCreate(s, 7))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_ = failedLine(body)
		_, _, _ = decodeRange(body, attrRevisionMin, attrRevision)
		_, _ = decodeHeader(body)
		got := map[ipsetutil.Entry]uint32{}
		_ = decodeMembers(body, got)
		for e := range got {
			if e.Source.IsValid() && e.Source != e.Source.Masked() {
				t.Errorf("%v is not masked", e)
			}
			_ = e.String()
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	for name, s := range map[string]ipsetutil.Set{
		"ip,port":      ipsetutil.ClusterIP.For(false),
		"ip,port,net6": ipsetutil.LoadBalancerSourceCIDR.For(true),
	} {
		r := rand.New(rand.NewPCG(1, 2))
		w := work{changes: make([]ipsetutil.Change, maxEntries)}
		for i := range w.changes {
			w.changes[i].Member = ipsetutil.Member{Set: s.Name, Entry: randomEntry(r, s)}
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var body netlink.Attributes
			for b.Loop() {
				body = w.append(body[:0], span{set: s, to: maxEntries})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*maxEntries), "ns/entry")
		})
	}
}
