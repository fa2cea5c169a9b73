//go:build kernel

package kernel

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	moby "github.com/moby/ipvs"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
)

// readByMoby lists everything through moby/ipvs, a reader that shares no code with
// ours, as sorted lines of its own raw fields.
func readByMoby(t *testing.T) []string {
	t.Helper()
	h, err := moby.New("")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	services, err := h.GetServices()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, s := range services {
		name := fmt.Sprintf("af%d proto%d %s:%d mark%d", s.AddressFamily, s.Protocol, s.Address, s.Port, s.FWMark)
		timeout := s.Timeout
		if s.Flags&flagPersistent == 0 {
			timeout = 0
		}
		lines = append(lines, fmt.Sprintf("%s %s flags%x timeout%d mask%x %q",
			name, s.SchedName, s.Flags&^flagHashed, timeout, s.Netmask, s.PEName))
		dests, err := h.GetDestinations(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range dests {
			lines = append(lines, fmt.Sprintf("%s -> af%d %s:%d w%d forward%d limits%d,%d",
				name, d.AddressFamily, d.Address, d.Port, d.Weight, d.ConnectionFlags&forwardingMask, d.UpperThreshold, d.LowerThreshold))
		}
	}
	slices.Sort(lines)
	return lines
}

// expectedOf gives the lines that readByMoby must find for a server of ours.
func expectedOf(v ipvsutil.VirtualServer, reals []ipvsutil.RealServer) []string {
	af, mask, flags := unix.AF_INET, uint32(0xffffffff), uint32(v.Flags)
	if v.Key.IsIPv6() {
		af, mask = unix.AF_INET6, 128
	}
	if v.Persistence != 0 {
		flags |= flagPersistent
	}
	name := fmt.Sprintf("af%d proto%d %s:%d mark0", af, v.Key.Protocol, v.Key.Addr.Addr(), v.Key.Addr.Port())
	if v.Key.Mark != 0 {
		name = fmt.Sprintf("af%d proto0 <nil>:0 mark%d", af, v.Key.Mark)
	}
	lines := []string{fmt.Sprintf("%s %s flags%x timeout%d mask%x \"\"", name, v.Scheduler, flags, v.Persistence, mask)}
	for _, r := range reals {
		lines = append(lines, fmt.Sprintf("%s -> af%d %s:%d w%d forward0 limits0,0", name, af, r.Addr.Addr(), r.Addr.Port(), r.Weight))
	}
	return lines
}

// kernelServer is a random server with a scheduler that every kernel has. The
// kernel keeps flags as they are given, whatever the scheduler makes of them.
func kernelServer(random *rand.Rand) (ipvsutil.VirtualServer, []ipvsutil.RealServer) {
	v := randomServer(random)
	v.Scheduler = []string{"rr", "wrr", "lc", "wlc", "sh", "mh"}[random.IntN(6)]
	byAddr := map[netip.AddrPort]ipvsutil.RealServer{}
	for range random.IntN(5) {
		r := randomReal(random, v.Key)
		r.Addr = netip.AddrPortFrom(unicast(r.Addr.Addr()), r.Addr.Port())
		byAddr[r.Addr] = r
	}
	var reals []ipvsutil.RealServer
	for _, r := range byAddr {
		reals = append(reals, r)
	}
	return v, reals
}

// unicast turns a random address into one that the kernel takes.
func unicast(addr netip.Addr) netip.Addr {
	if addr.Is6() {
		return addr
	}
	four := addr.As4()
	four[0] = 10
	return netip.AddrFrom4(four)
}

// Everything that we write, another reader reads as it was meant; what we read of
// it is the same as well.
func TestIPVSReadByMoby(t *testing.T) {
	newAddressSpace(t)
	k := openIPVS(t)
	random := rand.New(rand.NewPCG(7, 8))
	want := map[ipvsutil.Key][]string{}
	var servers []ipvsutil.VirtualServer
	for range 150 {
		v, reals := kernelServer(random)
		if _, twice := want[v.Key]; twice {
			continue
		}
		ops := []ipvsutil.Op{{Verb: ipvsutil.CreateVirtualServer, Server: v}}
		for _, r := range reals {
			ops = append(ops, ipvsutil.Op{Verb: ipvsutil.CreateRealServer, Server: v, Real: r})
		}
		do(t, k, ops...)
		want[v.Key] = expectedOf(v, reals)
		servers = append(servers, v)
	}
	compare := func(what string) {
		t.Helper()
		var lines []string
		for _, l := range want {
			lines = append(lines, l...)
		}
		slices.Sort(lines)
		if diff := cmp.Diff(lines, readByMoby(t)); diff != "" {
			t.Errorf("%s (-written +read):\n%s", what, diff)
		}
		slices.SortFunc(servers, func(a, b ipvsutil.VirtualServer) int { return a.Key.Compare(b.Key) })
		if got, err := k.VirtualServers(t.Context()); err != nil || !slices.Equal(got, servers) {
			t.Errorf("%s: own list differs, error %v:\n%s", what, err, cmp.Diff(fmt.Sprint(servers), fmt.Sprint(got)))
		}
	}
	compare("created")
	for i := range servers {
		v, _ := kernelServer(random)
		v.Key = servers[i].Key
		states, err := k.RealServers(t.Context(), v.Key)
		if err != nil {
			t.Fatal(err)
		}
		ops := []ipvsutil.Op{{Verb: ipvsutil.UpdateVirtualServer, Server: v}}
		var reals []ipvsutil.RealServer
		for j, s := range states {
			if j == 0 {
				ops = append(ops, ipvsutil.Op{Verb: ipvsutil.DeleteRealServer, Server: v, Real: s.RealServer})
				continue
			}
			s.Weight = random.Uint32N(ipvsutil.MaxWeight + 1)
			ops = append(ops, ipvsutil.Op{Verb: ipvsutil.UpdateRealServer, Server: v, Real: s.RealServer})
			reals = append(reals, s.RealServer)
		}
		do(t, k, ops...)
		servers[i], want[v.Key] = v, expectedOf(v, reals)
	}
	compare("updated")
	for _, v := range servers {
		do(t, k, ipvsutil.Op{Verb: ipvsutil.DeleteVirtualServer, Server: v})
	}
	want, servers = map[ipvsutil.Key][]string{}, nil
	compare("deleted")
}

// The text that operators read.
func TestIPVSReadByIpvsadm(t *testing.T) {
	newAddressSpace(t)
	k := openIPVS(t)
	web := ipvsutil.VirtualServer{Key: ipvsKey("10.96.0.1:443", ipvsutil.TCP), Scheduler: "rr", Persistence: 10800}
	dns := ipvsutil.VirtualServer{Key: ipvsKey("[fd00:10:96::a]:53", ipvsutil.UDP), Scheduler: "mh", Flags: ipvsutil.FlagSched1 | ipvsutil.FlagSched2}
	mark := ipvsutil.VirtualServer{Key: ipvsutil.MarkKey(131073, false), Scheduler: "wlc"}
	mark6 := ipvsutil.VirtualServer{Key: ipvsutil.MarkKey(131074, true), Scheduler: "wlc"}
	for _, s := range []struct {
		ipvsutil.VirtualServer
		real string
	}{{web, "10.244.1.2:6443"}, {dns, "[fd00:244::2]:5353"}, {mark, "10.244.1.2:0"}, {mark6, "[fd00:244::2]:80"}} {
		do(t, k, ipvsutil.Op{Verb: ipvsutil.CreateVirtualServer, Server: s.VirtualServer},
			ipvsutil.Op{Verb: ipvsutil.CreateRealServer, Server: s.VirtualServer, Real: ipvsutil.RealServer{
				Addr: netip.MustParseAddrPort(s.real), Weight: 3,
			}})
	}
	spaces := regexp.MustCompile(` +`)
	var got []string
	for line := range strings.Lines(ipvsadm(t, "-Ln")) {
		line = strings.TrimSpace(spaces.ReplaceAllString(line, " "))
		if strings.HasPrefix(line, "TCP ") || strings.HasPrefix(line, "UDP ") || strings.HasPrefix(line, "FWM ") {
			got = append(got, line)
		} else if strings.HasPrefix(line, "-> ") && !strings.Contains(line, "RemoteAddress") {
			got[len(got)-1] += " " + line
		}
	}
	slices.Sort(got)
	want := []string{
		"FWM 131073 wlc -> 10.244.1.2:0 Masq 3 0 0",
		"FWM 131074 IPv6 wlc -> [fd00:244::2]:80 Masq 3 0 0",
		"TCP 10.96.0.1:443 rr persistent 10800 -> 10.244.1.2:6443 Masq 3 0 0",
		"UDP [fd00:10:96::a]:53 mh (mh-fallback,mh-port) -> [fd00:244::2]:5353 Masq 3 0 0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("ipvsadm -Ln (-want +got):\n%s", diff)
	}
	// What we set, ipvsadm sees as timeouts of the namespace.
	if err := k.SetTimeouts(t.Context(), ipvsutil.Timeouts{TCP: 7200, TCPFin: 60, UDP: 30}); err != nil {
		t.Fatal(err)
	}
	if got := strings.TrimSpace(ipvsadm(t, "-L", "--timeout")); got != "Timeout (tcp tcpfin udp): 7200 60 30" {
		t.Errorf("ipvsadm --timeout: %q", got)
	}
}
