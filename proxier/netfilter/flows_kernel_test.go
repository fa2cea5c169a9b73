//go:build kernel

package netfilter

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
)

// entry is a conntrack flow: "udp client>frontend real".
type entry struct {
	protocol               ipvsutil.Protocol
	client, frontend, real string
}

func (e entry) String() string {
	return fmt.Sprintf("%s %s>%s %s", e.protocol, e.client, e.frontend, e.real)
}

func ip(a netip.AddrPort) net.IP { return net.IP(a.Addr().AsSlice()) }

func inetFamily(a netip.AddrPort) vnl.InetFamily {
	if a.Addr().Is6() {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// create puts the flow into the table, by another library's hand.
func (e entry) create(t *testing.T) {
	t.Helper()
	client, frontend, real := netip.MustParseAddrPort(e.client), netip.MustParseAddrPort(e.frontend), netip.MustParseAddrPort(e.real)
	f := &vnl.ConntrackFlow{
		FamilyType: uint8(inetFamily(client)),
		Forward: vnl.IPTuple{
			SrcIP: ip(client), SrcPort: client.Port(), DstIP: ip(frontend), DstPort: frontend.Port(), Protocol: uint8(e.protocol),
		},
		Reverse: vnl.IPTuple{
			SrcIP: ip(real), SrcPort: real.Port(), DstIP: ip(client), DstPort: client.Port(), Protocol: uint8(e.protocol),
		},
		TimeOut: 600,
	}
	if e.protocol == ipvsutil.TCP {
		f.ProtoInfo = &vnl.ProtoInfoTCP{State: 3}
	}
	if err := vnl.ConntrackCreate(vnl.ConntrackTable, inetFamily(client), f); err != nil {
		t.Fatalf("%s: %v", e, err)
	}
}

// flows returns the flows of the table as the program conntrack lists them.
func flows(t *testing.T) []string {
	t.Helper()
	var list []string
	for _, family := range []string{"ipv4", "ipv6"} {
		for line := range strings.Lines(command(t, "", "conntrack", "-L", "-f", family)) {
			fields := map[string][]string{}
			for _, word := range strings.Fields(line) {
				if key, value, ok := strings.Cut(word, "="); ok {
					fields[key] = append(fields[key], value)
				}
			}
			if len(fields["src"]) == 2 {
				list = append(list, fmt.Sprintf("%s %s>%s %s", strings.Fields(line)[0],
					net.JoinHostPort(fields["src"][0], fields["sport"][0]),
					net.JoinHostPort(fields["dst"][0], fields["dport"][0]),
					net.JoinHostPort(fields["src"][1], fields["sport"][1])))
			}
		}
	}
	slices.Sort(list)
	return list
}

func stale(protocol ipvsutil.Protocol, frontend, real string) ipvsutil.StaleFlow {
	f := ipvsutil.StaleFlow{Frontend: ipvsutil.Key{Addr: netip.MustParseAddrPort(frontend), Protocol: protocol}}
	if real != "" {
		f.Real = netip.MustParseAddrPort(real)
	}
	return f
}

// TestStatement92DeleteFlows has flows of the frontend and flows that are like them
// but for one thing.
func TestStatement92DeleteFlows(t *testing.T) {
	const udp, tcp, sctp = ipvsutil.UDP, ipvsutil.TCP, ipvsutil.SCTP
	table := []entry{
		{udp, "192.0.2.10:1001", "10.96.0.10:53", "10.244.1.2:53"},
		{udp, "192.0.2.10:1002", "10.96.0.10:53", "10.244.1.3:53"},
		{udp, "192.0.2.10:1003", "10.96.0.10:53", "10.244.1.2:5353"}, // other port of the pod
		{udp, "192.0.2.10:1004", "10.96.0.10:54", "10.244.1.2:53"},   // other port of the Service
		{udp, "192.0.2.10:1005", "10.96.0.11:53", "10.244.1.2:53"},   // other Service
		{udp, "192.0.2.10:1006", "192.0.2.77:30053", "192.0.2.77:30053"},
		{udp, "192.0.2.10:1007", "192.0.2.1:30053", "10.244.1.2:53"},
		{tcp, "192.0.2.10:1001", "10.96.0.10:53", "10.244.1.2:53"},
		{sctp, "192.0.2.10:1001", "10.96.0.10:53", "10.244.1.2:53"},
		{udp, "[2001:db8::10]:1001", "[fd00:10:96::a]:53", "[fd00:10:244::2]:53"},
		{udp, "[2001:db8::10]:1002", "[fd00:10:96::a]:53", "[fd00:10:244::3]:53"},
	}
	for name, c := range map[string]struct {
		stale []ipvsutil.StaleFlow
		gone  []int // of the table
	}{
		"nothing":          {nil, nil},
		"one real server":  {[]ipvsutil.StaleFlow{stale(udp, "10.96.0.10:53", "10.244.1.2:53")}, []int{0}},
		"a whole frontend": {[]ipvsutil.StaleFlow{stale(udp, "10.96.0.10:53", "")}, []int{0, 1, 2}},
		"IPv6":             {[]ipvsutil.StaleFlow{stale(udp, "[fd00:10:96::a]:53", "[fd00:10:244::2]:53")}, []int{9}},
		"SCTP":             {[]ipvsutil.StaleFlow{stale(sctp, "10.96.0.10:53", "")}, []int{8}},
		"a NodePort": {[]ipvsutil.StaleFlow{
			stale(udp, "192.0.2.1:30053", "10.244.1.2:53"), stale(udp, "10.96.0.10:53", "10.244.1.3:53"),
		}, []int{1, 6}},
		"all and one": {[]ipvsutil.StaleFlow{
			stale(udp, "10.96.0.10:53", ""), stale(udp, "10.96.0.10:53", "10.244.1.2:53"), stale(udp, "[fd00:10:96::a]:53", ""),
		}, []int{0, 1, 2, 9, 10}},
		"no such flow": {[]ipvsutil.StaleFlow{stale(udp, "10.96.0.99:53", "")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			newNamespace(t)
			var want []string
			for i, e := range table {
				e.create(t)
				if !slices.Contains(c.gone, i) {
					want = append(want, e.String())
				}
			}
			slices.Sort(want)
			if len(flows(t)) != len(table) {
				t.Fatalf("made %d flows, have %q", len(table), flows(t))
			}
			deleted, err := (&Rules{}).DeleteFlows(context.Background(), c.stale)
			if err != nil || deleted != len(c.gone) {
				t.Errorf("deleted %d, %v; want %d", deleted, err, len(c.gone))
			}
			if diff := cmp.Diff(want, flows(t)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestFlowsOfZonesStay: a zone is another tool's table.
func TestFlowsOfZonesStay(t *testing.T) {
	newNamespace(t)
	e := entry{ipvsutil.UDP, "192.0.2.10:1001", "10.96.0.10:53", "10.244.1.2:53"}
	command(t, "", "conntrack", "-I", "-w", "7", "-p", "udp", "-t", "600", "-s", "192.0.2.10", "-d", "10.96.0.10",
		"--sport", "1001", "--dport", "53", "--reply-src", "10.244.1.2", "--reply-dst", "192.0.2.10",
		"--reply-port-src", "53", "--reply-port-dst", "1001")
	deleted, err := (&Rules{}).DeleteFlows(context.Background(), []ipvsutil.StaleFlow{stale(e.protocol, e.frontend, e.real)})
	if err != nil || deleted != 0 {
		t.Errorf("deleted %d, %v; want none", deleted, err)
	}
	if got := flows(t); len(got) != 1 {
		t.Errorf("flows %q, want the one of the zone", got)
	}
}

// TestCaseD10ManyFlows (kubernetes/kubernetes#129982) deletes more than a chunk among
// others of the same protocol, and needs no more memory a flow than for few.
func TestCaseD10ManyFlows(t *testing.T) {
	newNamespace(t)
	const each = 2*deleteChunk + 7
	for i := range each {
		client := fmt.Sprintf("192.0.2.10:%d", 1024+i)
		entry{ipvsutil.UDP, client, "10.96.0.10:53", "10.244.1.2:53"}.create(t)
		entry{ipvsutil.UDP, client, "10.96.0.11:53", "10.244.1.3:53"}.create(t)
	}
	for _, c := range []struct {
		want  int
		stale []ipvsutil.StaleFlow
	}{
		{0, []ipvsutil.StaleFlow{stale(ipvsutil.UDP, "10.96.0.99:53", "")}},
		{each, []ipvsutil.StaleFlow{stale(ipvsutil.UDP, "10.96.0.10:53", "10.244.1.2:53"), stale(ipvsutil.UDP, "10.96.0.98:53", "")}},
		{each, []ipvsutil.StaleFlow{stale(ipvsutil.UDP, "10.96.0.11:53", "")}},
	} {
		before, start := len(flows(t)), time.Now()
		var memory, after runtime.MemStats
		runtime.ReadMemStats(&memory)
		deleted, err := (&Rules{}).DeleteFlows(context.Background(), c.stale)
		runtime.ReadMemStats(&after)
		allocated := after.TotalAlloc - memory.TotalAlloc
		t.Logf("%d of %d flows deleted in %v, %d octets allocated", deleted, before, time.Since(start), allocated)
		const buffers, ofAFlow = 512 << 10, 256
		if limit := uint64(buffers + before*ofAFlow); allocated > limit {
			t.Errorf("%d octets allocated for %d flows, want %d at most", allocated, before, limit)
		}
		if err != nil || deleted != c.want || len(flows(t)) != before-c.want {
			t.Fatalf("deleted %d, %v, left %d; want %d deleted of %d", deleted, err, len(flows(t)), c.want, before)
		}
	}
	if left := flows(t); len(left) != 0 {
		t.Errorf("%d flows left", len(left))
	}
}
