//go:build kernel

package kernel

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/conformance"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// openIPVS opens the door in the namespace of the calling thread. A kernel without
// IPVS fails the test: it is the kernel that is to be tested.
func openIPVS(t testing.TB) *IPVS {
	t.Helper()
	k, err := Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	return k
}

// do performs ops that have to succeed.
func do(t testing.TB, k *IPVS, ops ...ipvsutil.Op) {
	t.Helper()
	if errs := k.Do(t.Context(), ops); errs != nil {
		t.Fatal(errors.Join(errs...))
	}
}

func TestIPVSConformance(t *testing.T) {
	conformance.RunIPVS(t, func(t *testing.T) conformance.IPVS {
		newAddressSpace(t)
		return openIPVS(t)
	})
}

func TestIPVSVersion(t *testing.T) {
	newAddressSpace(t)
	version, err := openIPVS(t).Version(t.Context())
	if err != nil || !strings.HasPrefix(version, "1.") {
		t.Errorf("version %q, error %v", version, err)
	}
}

// A namespace sees its own servers only, whatever thread uses the door.
func TestIPVSNamespaces(t *testing.T) {
	newAddressSpace(t)
	first := openIPVS(t)
	v := ipvsutil.VirtualServer{Key: ipvsKey("10.96.0.1:80", ipvsutil.TCP), Scheduler: "rr"}
	do(t, first, ipvsutil.Op{Verb: ipvsutil.CreateVirtualServer, Server: v})
	newAddressSpace(t)
	if list, err := openIPVS(t).VirtualServers(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("second namespace: %v, error %v", list, err)
	}
	if list, err := first.VirtualServers(t.Context()); err != nil || !slices.Equal(list, []ipvsutil.VirtualServer{v}) {
		t.Errorf("first namespace: %v, error %v", list, err)
	}
}

// ipvsadm runs the tool in the namespace of the test's thread.
func ipvsadm(t *testing.T, args ...string) string {
	t.Helper()
	out, err := exec.Command("ipvsadm", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("ipvsadm %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// What ipvsadm gives a server beyond our fields is seen, and an update removes it.
func TestIPVSForeignIsMended(t *testing.T) {
	newAddressSpace(t)
	k := openIPVS(t)
	ipvsadm(t, "-A", "-t", "10.96.0.1:80", "-s", "rr", "-p", "60", "-M", "255.255.255.0")
	ipvsadm(t, "-a", "-t", "10.96.0.1:80", "-r", "10.244.1.2:80", "-g", "-w", "1")
	ipvsadm(t, "-a", "-t", "10.96.0.1:80", "-r", "10.244.1.3:80", "-m", "-w", "1", "-x", "100")
	ipvsadm(t, "-a", "-t", "10.96.0.1:80", "-r", "10.244.1.4:80", "-m", "-w", "1")
	v := ipvsutil.VirtualServer{Key: ipvsKey("10.96.0.1:80", ipvsutil.TCP), Scheduler: "rr", Persistence: 60, Foreign: true}
	r := ipvsutil.RealServer{Addr: netip.MustParseAddrPort("10.244.1.2:80"), Weight: 1, Foreign: true}
	r2 := r
	r2.Addr = netip.MustParseAddrPort("10.244.1.3:80")
	own := ipvsutil.RealServer{Addr: netip.MustParseAddrPort("10.244.1.4:80"), Weight: 1}
	check := func(v ipvsutil.VirtualServer, reals ...ipvsutil.RealServer) {
		t.Helper()
		if list, err := k.VirtualServers(t.Context()); err != nil || !slices.Equal(list, []ipvsutil.VirtualServer{v}) {
			t.Errorf("servers %v, error %v; want %v", list, err, v)
		}
		states, err := k.RealServers(t.Context(), v.Key)
		var got []ipvsutil.RealServer
		for _, s := range states {
			got = append(got, s.RealServer)
		}
		if err != nil || !slices.Equal(got, reals) {
			t.Errorf("real servers %v, error %v; want %v", got, err, reals)
		}
	}
	check(v, r, r2, own)
	do(t, k, ipvsutil.Op{Verb: ipvsutil.UpdateVirtualServer, Server: v},
		ipvsutil.Op{Verb: ipvsutil.UpdateRealServer, Server: v, Real: r},
		ipvsutil.Op{Verb: ipvsutil.UpdateRealServer, Server: v, Real: r2})
	v.Foreign, r.Foreign, r2.Foreign = false, false, false
	check(v, r, r2, own)
}

// Servers that we refuse to make can be there: they are listed and can be deleted.
func TestIPVSStrangeServersAreListed(t *testing.T) {
	newAddressSpace(t)
	k := openIPVS(t)
	ipvsadm(t, "-A", "-t", "10.96.0.1:0", "-s", "rr", "-p", "60") // all ports
	ipvsadm(t, "-a", "-t", "10.96.0.1:0", "-r", "10.244.1.2:0", "-m")
	list, err := k.VirtualServers(t.Context())
	if err != nil || len(list) != 1 || list[0].Key != ipvsKey("10.96.0.1:0", ipvsutil.TCP) {
		t.Fatalf("servers %v, error %v", list, err)
	}
	reals, err := k.RealServers(t.Context(), list[0].Key)
	if err != nil || len(reals) != 1 {
		t.Fatalf("real servers %v, error %v", reals, err)
	}
	do(t, k, ipvsutil.Op{Verb: ipvsutil.DeleteRealServer, Server: list[0], Real: reals[0].RealServer},
		ipvsutil.Op{Verb: ipvsutil.DeleteVirtualServer, Server: list[0]})
}

// While another program adds and deletes servers, a list is complete or refused.
func TestIPVSListUnderChange(t *testing.T) {
	newAddressSpace(t)
	k, other := openIPVS(t), openIPVS(t)
	servers := func(net, n int, verb ipvsutil.Verb) []ipvsutil.Op {
		var ops []ipvsutil.Op
		for i := range n {
			ops = append(ops, ipvsutil.Op{Verb: verb, Server: ipvsutil.VirtualServer{
				Key: ipvsKey(fmt.Sprintf("10.%d.%d.%d:80", net, i/250, i%250), ipvsutil.TCP), Scheduler: "rr",
			}})
		}
		return ops
	}
	const n = 1500
	do(t, k, servers(96, n, ipvsutil.CreateVirtualServer)...)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				other.Do(t.Context(), servers(97, 100, ipvsutil.CreateVirtualServer))
				other.Do(t.Context(), servers(97, 100, ipvsutil.DeleteVirtualServer))
			}
		}
	}()
	complete, refused := 0, 0
	for range 20 {
		list, err := k.VirtualServers(t.Context())
		if errors.Is(err, netlink.ErrInterrupted) {
			refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		complete++
		ours := 0
		for _, v := range list {
			if v.Key.Addr.Addr().As4()[1] == 96 {
				ours++
			}
		}
		if ours != n {
			t.Errorf("%d of %d servers", ours, n)
		}
	}
	close(stop)
	<-done
	t.Logf("%d lists complete, %d refused", complete, refused)
	if list, err := k.VirtualServers(t.Context()); err != nil || len(list) != n {
		t.Errorf("afterwards %d servers, error %v", len(list), err)
	}
}

// Servers of IPv4 and of firewall marks in it count, those of IPv6 do not.
func TestCountIPv4(t *testing.T) {
	k := openIPVS(t)
	before, err := k.CountIPv4(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range []ipvsutil.Key{ipvsKey("10.96.9.1:80", ipvsutil.TCP), ipvsutil.MarkKey(0x7001, false), ipvsKey("[fd00::9]:80", ipvsutil.TCP)} {
		s := ipvsutil.VirtualServer{Key: key, Scheduler: "rr"}
		do(t, k, ipvsutil.Op{Verb: ipvsutil.CreateVirtualServer, Server: s})
		t.Cleanup(func() { k.Do(context.Background(), []ipvsutil.Op{{Verb: ipvsutil.DeleteVirtualServer, Server: s}}) })
		if n, err := k.CountIPv4(t.Context()); err != nil || n != before+min(i+1, 2) {
			t.Errorf("with %v: %d servers, before all %d, error %v", key, n, before, err)
		}
	}
}

// BenchmarkIPVS is the time of one change, and of one listed server.
func BenchmarkIPVS(b *testing.B) {
	const n = 5000
	each := func(verb ipvsutil.Verb) []ipvsutil.Op {
		ops := make([]ipvsutil.Op, n)
		for i := range ops {
			ops[i] = ipvsutil.Op{Verb: verb, Server: ipvsutil.VirtualServer{
				Key: ipvsKey(fmt.Sprintf("10.96.%d.%d:80", i/250, i%250), ipvsutil.TCP), Scheduler: "rr",
			}, Real: ipvsutil.RealServer{Addr: netip.MustParseAddrPort("10.244.0.1:80"), Weight: 1}}
		}
		return ops
	}
	k := openIPVS(b)
	for _, verb := range []ipvsutil.Verb{
		ipvsutil.CreateVirtualServer, ipvsutil.CreateRealServer, ipvsutil.UpdateVirtualServer,
		ipvsutil.UpdateRealServer, 0, ipvsutil.DeleteVirtualServer,
	} {
		ops := each(verb)
		name := strings.ReplaceAll(verb.String(), " ", "-")
		if verb == 0 {
			name = "list"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N { // meant for -benchtime 1x: a create succeeds once
				if verb != 0 {
					do(b, k, ops...)
				} else if list, err := k.VirtualServers(b.Context()); err != nil || len(list) != n {
					b.Fatalf("%d servers, error %v", len(list), err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(n*b.N), "us/change")
		})
	}
}
