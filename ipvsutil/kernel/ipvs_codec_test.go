package kernel

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

func ipvsKey(addr string, p ipvsutil.Protocol) ipvsutil.Key {
	return ipvsutil.Key{Addr: netip.MustParseAddrPort(addr), Protocol: p}
}

// The bytes are read off the structure of the protocol, field by field, not off the
// encoder.
func TestIPVSEncodeGolden(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Fatal("the golden bytes are those of a little-endian machine")
	}
	const (
		key4  = "06000100 02000000" + "06000200 06000000" + "14000300 0a600001000000000000000000000000" + "06000400 01bb0000"
		key6  = "06000100 0a000000" + "06000200 11000000" + "14000300 fd000010009600000000000000000010" + "06000400 00350000"
		mark6 = "06000100 0a000000" + "08000500 01000200"
		real4 = "14000100 0af40102000000000000000000000000" + "06000200 192b0000" + "06000b00 02000000"
		real6 = "14000100 fd000244000000000000000000000000" + "06000200 00000000" + "06000b00 0a000000"
	)
	four := ipvsutil.VirtualServer{Key: ipvsKey("10.96.0.1:443", ipvsutil.TCP), Scheduler: "rr"}
	six := ipvsutil.VirtualServer{
		Key: ipvsKey("[fd00:10:96::10]:53", ipvsutil.UDP), Scheduler: "sh",
		Flags: ipvsutil.FlagSched1, Persistence: 10800, Foreign: true,
	}
	marked := ipvsutil.VirtualServer{Key: ipvsutil.MarkKey(0x20001, true)}
	for name, c := range map[string]struct {
		op   ipvsutil.Op
		want string
	}{
		"create server": {
			ipvsutil.Op{Verb: ipvsutil.CreateVirtualServer, Server: four},
			"01010000" + "54000180" + key4 + "07000600 72720000" + "0c000700 00000000 ffffffff" + "08000800 00000000" + "08000900 ffffffff",
		},
		"update server": {
			ipvsutil.Op{Verb: ipvsutil.UpdateVirtualServer, Server: six},
			"02010000" + "54000180" + key6 + "07000600 73680000" + "0c000700 09000000 ffffffff" + "08000800 302a0000" + "08000900 80000000",
		},
		"delete server": {
			ipvsutil.Op{Verb: ipvsutil.DeleteVirtualServer, Server: four},
			"03010000" + "30000180" + key4,
		},
		"create real": {
			ipvsutil.Op{Verb: ipvsutil.CreateRealServer, Server: four, Real: ipvsutil.RealServer{
				Addr: netip.MustParseAddrPort("10.244.1.2:6443"), Weight: 1,
			}},
			"05010000" + "30000180" + key4 + "48000280" + real4 + "08000300 00000000" + "08000400 01000000" + "08000500 00000000" + "08000600 00000000",
		},
		"update real of a mark": {
			ipvsutil.Op{Verb: ipvsutil.UpdateRealServer, Server: marked, Real: ipvsutil.RealServer{
				Addr: netip.MustParseAddrPort("[fd00:244::]:0"), Weight: 65535,
			}},
			"06010000" + "14000180" + mark6 + "48000280" + real6 + "08000300 00000000" + "08000400 ffff0000" + "08000500 00000000" + "08000600 00000000",
		},
		"delete real": {
			ipvsutil.Op{Verb: ipvsutil.DeleteRealServer, Server: four, Real: ipvsutil.RealServer{
				Addr: netip.MustParseAddrPort("10.244.1.2:6443"),
			}},
			"07010000" + "30000180" + key4 + "28000280" + real4,
		},
	} {
		if err := c.op.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var a netlink.Attributes
		appendOp(&a, c.op)
		if got, want := hex.EncodeToString(a), strings.ReplaceAll(c.want, " ", ""); got != want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want)
		}
	}
}

// Whatever is created reads back as the same value: the requests have the form of
// the replies.
func TestIPVSRoundTrip(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		op := ipvsutil.Op{Verb: ipvsutil.CreateVirtualServer, Server: randomServer(random)}
		var a netlink.Attributes
		appendOp(&a, op)
		v, err := decodeVirtualServer(a, "wlc")
		if err != nil || v != op.Server {
			t.Fatalf("wrote %v, read %v, error %v", op.Server, v, err)
		}
		op.Verb, op.Real = ipvsutil.CreateRealServer, randomReal(random, op.Server.Key)
		a = a[:0]
		appendOp(&a, op)
		r, err := decodeRealServer(a, op.Server.Key)
		if err != nil || r.RealServer != op.Real || !r.Connections.Idle() {
			t.Fatalf("wrote %v, read %v, error %v", op.Real, r, err)
		}
	}
}

func randomAddr(random *rand.Rand, ipv6 bool) netip.Addr {
	var b [16]byte
	for i := range b {
		b[i] = byte(random.Uint32())
	}
	if ipv6 {
		b[0] = 0xfd
		if random.IntN(4) == 0 {
			clear(b[4:]) // looks like an IPv4 address in the field
		}
		return netip.AddrFrom16(b)
	}
	return netip.AddrFrom4([4]byte(b[:4]))
}

func randomServer(random *rand.Rand) ipvsutil.VirtualServer {
	ipv6 := random.IntN(2) == 0
	v := ipvsutil.VirtualServer{
		Scheduler:   []string{"rr", "wlc", "sh", "fifteen_letters"}[random.IntN(4)],
		Flags:       ipvsutil.Flags(random.Uint32()) & ipvsutil.SchedulerFlags,
		Persistence: random.Uint32N(3) * random.Uint32N(ipvsutil.MaxPersistence/2),
	}
	if random.IntN(3) == 0 {
		v.Key = ipvsutil.MarkKey(random.Uint32()|1, ipv6)
		return v
	}
	v.Key = ipvsutil.Key{
		Addr:     netip.AddrPortFrom(randomAddr(random, ipv6), uint16(random.Uint32())|1),
		Protocol: []ipvsutil.Protocol{ipvsutil.TCP, ipvsutil.UDP, ipvsutil.SCTP}[random.IntN(3)],
	}
	return v
}

func randomReal(random *rand.Rand, key ipvsutil.Key) ipvsutil.RealServer {
	return ipvsutil.RealServer{
		Addr:   netip.AddrPortFrom(randomAddr(random, key.IsIPv6()), uint16(random.Uint32())|1),
		Weight: random.Uint32N(ipvsutil.MaxWeight + 1),
	}
}

// realReply is a reply to cmdGetDest as kernels give it, with more than we ask for.
func realReply(addr []byte, more func(*netlink.Attributes)) []byte {
	var a netlink.Attributes
	a.AppendGenericHeader(cmdNewDest, ipvsVersion)
	mark := a.Nest(attrDest)
	a.Bytes(destAddr, addr)
	a.U16BE(destPort, 80)
	a.U32(destWeight, 3)
	a.U32(destActive, 4)
	a.U32(destInactive, 5)
	a.U32(destPersistent, 6)
	if more != nil {
		more(&a)
	}
	stats := a.Nest(destFamily - 1)
	a.U32(1, 99)
	a.End(stats)
	a.End(mark)
	return a
}

// The family attribute decides; without it the virtual server does, and never the
// look of the address (moby/ipvs#19, kubernetes#89520).
func TestIPVSFamilyOfRealServers(t *testing.T) {
	six, four := netip.MustParseAddr("2001:db8::").As16(), [16]byte{10, 244, 1, 2}
	family := func(af uint16) func(*netlink.Attributes) {
		return func(a *netlink.Attributes) { a.U16(destFamily, af) }
	}
	key4, key6 := ipvsKey("10.96.0.1:80", ipvsutil.TCP), ipvsKey("[fd00::1]:80", ipvsutil.TCP)
	for name, c := range map[string]struct {
		key  ipvsutil.Key
		addr []byte
		more func(*netlink.Attributes)
		want string
	}{
		"old kernel IPv4":       {key4, four[:], nil, "10.244.1.2:80"},
		"old kernel IPv6":       {key6, six[:], nil, "[2001:db8::]:80"},
		"IPv4":                  {key4, four[:], family(unix.AF_INET), "10.244.1.2:80"},
		"IPv6":                  {key6, six[:], family(unix.AF_INET6), "[2001:db8::]:80"},
		"four bytes":            {key4, four[:4], nil, "10.244.1.2:80"},
		"IPv4 below IPv6":       {key6, four[:], family(unix.AF_INET), "10.244.1.2:80"},
		"mark IPv6, old kernel": {ipvsutil.MarkKey(7, true), six[:], nil, "[2001:db8::]:80"},
	} {
		got, err := decodeRealServer(realReply(c.addr, c.more), c.key)
		want := ipvsutil.RealServerState{
			RealServer:  ipvsutil.RealServer{Addr: netip.MustParseAddrPort(c.want), Weight: 3},
			Connections: ipvsutil.Connections{Active: 4, Inactive: 5, Persistent: 6},
		}
		if err != nil || got != want {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
	}
	if _, err := decodeRealServer(realReply(four[:4], nil), key6); !errors.Is(err, netlink.ErrTruncated) {
		t.Errorf("IPv6 address of four bytes: %v", err)
	}
	if _, err := decodeRealServer(realReply(four[:], family(7)), key4); !errors.Is(err, unix.EAFNOSUPPORT) {
		t.Errorf("family 7: %v", err)
	}
}

func TestIPVSForeign(t *testing.T) {
	key := ipvsKey("10.96.0.1:80", ipvsutil.TCP)
	for name, more := range map[string]func(*netlink.Attributes){
		"direct routing":  func(a *netlink.Attributes) { a.U32(destForwarding, 3) },
		"upper threshold": func(a *netlink.Attributes) { a.U32(destUpper, 100) },
		"lower threshold": func(a *netlink.Attributes) { a.U32(destLower, 100) },
	} {
		if got, err := decodeRealServer(realReply(make([]byte, 16), more), key); err != nil || !got.Foreign {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
	}
	for name, c := range map[string]struct {
		flags, timeout, netmask uint32
		engine                  string
		want                    ipvsutil.VirtualServer
	}{
		"plain":            {flagHashed, 0, 0xffffffff, "", ipvsutil.VirtualServer{}},
		"timeout only":     {flagHashed, 360, 0, "", ipvsutil.VirtualServer{}},
		"persistent":       {flagHashed | flagPersistent, 360, 0xffffffff, "", ipvsutil.VirtualServer{Persistence: 360}},
		"persistent group": {flagPersistent, 360, 0x00ffffff, "", ipvsutil.VirtualServer{Persistence: 360, Foreign: true}},
		"no time":          {flagPersistent, 0, 0xffffffff, "", ipvsutil.VirtualServer{Foreign: true}},
		"engine":           {0, 0, 0xffffffff, "sip", ipvsutil.VirtualServer{Foreign: true}},
		"one packet":       {4 | flagHashed, 0, 0xffffffff, "", ipvsutil.VirtualServer{Flags: ipvsutil.FlagOnePacket}},
	} {
		var a netlink.Attributes
		a.AppendGenericHeader(cmdNewService, ipvsVersion)
		mark := a.Nest(attrService)
		appendKeyFields(&a, key)
		a.String(svcScheduler, "rr")
		a.Bytes(svcFlags, binary.NativeEndian.AppendUint32(nil, c.flags))
		a.U32(svcTimeout, c.timeout)
		a.U32(svcNetmask, c.netmask)
		if c.engine != "" {
			a.String(svcEngine, c.engine)
		}
		a.End(mark)
		c.want.Key, c.want.Scheduler = key, "rr"
		if got, err := decodeVirtualServer(a, ""); err != nil || got != c.want {
			t.Errorf("%s: %v, error %v", name, got, err)
		}
	}
}

func FuzzIPVSDecode(f *testing.F) {
	var a netlink.Attributes
	random := rand.New(rand.NewPCG(3, 4))
	for range 8 {
		a = nil
		appendOp(&a, ipvsutil.Op{Verb: ipvsutil.CreateVirtualServer, Server: randomServer(random)})
		f.Add([]byte(a))
	}
	f.Add(realReply(make([]byte, 16), nil))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, b []byte) {
		v, err := decodeVirtualServer(b, "")
		if err == nil && v.Key.Check() != nil {
			t.Errorf("decoded a server without a name: %+v", v)
		}
		r, err := decodeRealServer(b, ipvsutil.MarkKey(1, true))
		if err == nil && !r.Addr.IsValid() {
			t.Errorf("decoded %+v", r)
		}
	})
}

func BenchmarkIPVSEncode(b *testing.B) {
	random := rand.New(rand.NewPCG(5, 6))
	ops := make([]ipvsutil.Op, chunk)
	for i := range ops {
		v := randomServer(random)
		ops[i] = ipvsutil.Op{Verb: ipvsutil.CreateRealServer, Server: v, Real: randomReal(random, v.Key)}
	}
	k := &IPVS{}
	b.ReportAllocs()
	for b.Loop() {
		k.encode(ops, 0, len(ops), func(_ int, err error) { b.Fatal(err) })
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*chunk), "ns/op-encoded")
}
