package netfilter

import (
	"encoding/hex"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// someFlow is what the kernel sends of a flow through 10.96.0.10:53 to 10.244.1.2:5353.
func someFlow(more func(*netlink.Attributes)) netlink.Attributes {
	body := header(false)
	for kind, side := range map[uint16][4]any{
		attrTupleOriginal: {[]byte{192, 0, 2, 10}, []byte{10, 96, 0, 10}, uint16(1001), uint16(53)},
		attrTupleReply:    {[]byte{10, 244, 1, 2}, []byte{192, 0, 2, 10}, uint16(5353), uint16(1001)},
	} {
		nest := body.Nest(kind)
		ip := body.Nest(attrTupleIP)
		body.Bytes(attrIPv4Source, side[0].([]byte))
		body.Bytes(attrIPv4Destination, side[1].([]byte))
		body.End(ip)
		protocol := body.Nest(attrTupleProtocol)
		body.U8(attrProtocolNumber, uint8(ipvsutil.UDP))
		body.U16BE(attrSourcePort, side[2].(uint16))
		body.U16BE(attrDestinationPort, side[3].(uint16))
		body.End(protocol)
		body.End(nest)
	}
	body.Bytes(attrID, []byte{1, 2, 3, 4})
	if more != nil {
		more(&body)
	}
	return body
}

func TestParseFlow(t *testing.T) {
	f, ok, err := parseFlow(someFlow(nil))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if f.protocol != ipvsutil.UDP || f.frontend.String() != "10.96.0.10:53" || f.real.String() != "10.244.1.2:5353" {
		t.Errorf("%s %s %s", f.protocol, f.frontend, f.real)
	}
	again, ok, err := parseFlow(f.deletion(false).Body)
	if err != nil || !ok || again.frontend != f.frontend || string(again.id) != "\x01\x02\x03\x04" {
		t.Errorf("the deletion names %s id %x, %v", again.frontend, again.id, err)
	}
	if _, ok, err := parseFlow(someFlow(func(b *netlink.Attributes) { b.U16BE(attrZone, 7) })); ok || err != nil {
		t.Errorf("flow of a zone: %v, %v; want it passed over", ok, err)
	}
}

func TestParseFlowTruncated(t *testing.T) {
	whole := someFlow(nil)
	for n := range len(whole) {
		f, ok, err := parseFlow(whole[:n])
		if err != nil && !errors.Is(err, netlink.ErrTruncated) {
			t.Errorf("%d bytes: %v", n, err)
		}
		if err == nil && ok && f.frontend.Port() != 53 {
			t.Errorf("%d bytes: %s", n, f.frontend)
		}
	}
}

func TestDumpRequest(t *testing.T) {
	one := search{netip.MustParseAddrPort("10.96.0.10:53"): nil}
	six := search{netip.MustParseAddrPort("[fd00::a]:53"): nil}
	two := search{netip.MustParseAddrPort("10.96.0.10:53"): nil, netip.MustParseAddrPort("10.96.0.11:53"): nil}
	for name, c := range map[string]struct {
		key    searchKey
		search search
		flags  string // of the filter, as bytes
		has    string
		lacks  string
	}{
		"one frontend":      {searchKey{false, ipvsutil.UDP}, one, "2a000000", "0a60000a", ""},
		"one IPv6 frontend": {searchKey{true, ipvsutil.UDP}, six, "28000000", "0035", "fd00"},
		"two frontends":     {searchKey{false, ipvsutil.SCTP}, two, "08000000", "84", "0a6000"},
	} {
		body := hex.EncodeToString(dumpRequest(c.key, c.search).Body)
		if !strings.HasSuffix(body, c.flags) || !strings.Contains(body, c.has) || c.lacks != "" && strings.Contains(body, c.lacks) {
			t.Errorf("%s: %s", name, body)
		}
	}
}

func TestSearch(t *testing.T) {
	frontend := netip.MustParseAddrPort("10.96.0.10:53")
	key := ipvsutil.Key{Addr: frontend, Protocol: ipvsutil.UDP}
	real, other := netip.MustParseAddrPort("10.244.1.2:53"), netip.MustParseAddrPort("10.244.1.3:53")
	s := search{}
	s.add(ipvsutil.StaleFlow{Frontend: key, Real: real})
	if !s.matches(flow{frontend: frontend, real: real}) || s.matches(flow{frontend: frontend, real: other}) {
		t.Error("want flows to the real server that left, and no others")
	}
	s.add(ipvsutil.StaleFlow{Frontend: key})
	s.add(ipvsutil.StaleFlow{Frontend: key, Real: real})
	if !s.matches(flow{frontend: frontend, real: other}) {
		t.Error("want all flows of the frontend, whatever comes after")
	}
	if s.matches(flow{frontend: netip.MustParseAddrPort("10.96.0.10:54"), real: real}) {
		t.Error("want no flow of another frontend")
	}
}

func FuzzParseFlow(f *testing.F) {
	f.Add([]byte(someFlow(nil)))
	f.Fuzz(func(t *testing.T, body []byte) {
		flow, ok, err := parseFlow(body)
		if err == nil && ok && flow.original == nil {
			t.Error("a flow without its tuple")
		}
	})
}

func FuzzParseListing(f *testing.F) {
	f.Add(Render(podNetwork(), false).String())
	f.Add("*nat\n:A - [0:0]\n-A A -m comment --comment \"x \\\" y\" -j B\nCOMMIT\n")
	f.Fuzz(func(t *testing.T, out string) {
		rs := Render(podNetwork(), false)
		l := parseListing(out)
		_ = rs.input(rs.compare(l))
		_, _ = rs.removal(l)
	})
}
