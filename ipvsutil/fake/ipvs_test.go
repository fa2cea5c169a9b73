package fake_test

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/conformance"
	"kube-ipvs-proxy/ipvsutil/fake"
)

func TestIPVSConformance(t *testing.T) {
	conformance.RunIPVS(t, func(*testing.T) conformance.IPVS { return fake.NewIPVS() })
}

var (
	web = ipvsutil.VirtualServer{
		Key:       ipvsutil.Key{Addr: netip.MustParseAddrPort("10.96.0.1:80"), Protocol: ipvsutil.TCP},
		Scheduler: "rr",
	}
	pod = ipvsutil.RealServer{Addr: netip.MustParseAddrPort("10.244.1.2:8080"), Weight: 1}
)

func op(verb ipvsutil.Verb) ipvsutil.Op { return ipvsutil.Op{Verb: verb, Server: web, Real: pod} }

func TestIPVSCounts(t *testing.T) {
	f := fake.NewIPVS()
	f.Do(t.Context(), []ipvsutil.Op{
		op(ipvsutil.DeleteVirtualServer), // needless
		op(ipvsutil.CreateVirtualServer),
		op(ipvsutil.CreateVirtualServer), // needless
		op(ipvsutil.UpdateVirtualServer), // needless: equal
		op(ipvsutil.UpdateRealServer),    // needless
		op(ipvsutil.CreateRealServer),
		op(ipvsutil.UpdateRealServer), // needless: equal
		op(ipvsutil.DeleteRealServer),
		op(0), // invalid
		{Verb: ipvsutil.CreateVirtualServer, Server: ipvsutil.VirtualServer{Key: ipvsutil.MarkKey(1, true), Scheduler: "nosuch"}},
	})
	if _, err := f.RealServers(t.Context(), web.Key); err != nil {
		t.Fatal(err)
	}
	want := fake.IPVSCounts{ListReal: 1, Needless: 5, Invalid: 1}
	want.Ops = [...]int{0, 3, 1, 1, 1, 2, 1}
	if got := f.Counts(); got != want || got.Total() != 9 {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	f.ResetCounts()
	if got := f.Counts(); got != (fake.IPVSCounts{}) {
		t.Errorf("counts %+v after reset", got)
	}
}

func TestIPVSFaults(t *testing.T) {
	f := fake.NewIPVS()
	f.FailNth(2, syscall.ENOMEM)
	ops := []ipvsutil.Op{op(ipvsutil.CreateVirtualServer), op(ipvsutil.CreateRealServer), op(ipvsutil.UpdateRealServer)}
	errs := f.Do(t.Context(), ops)
	if len(errs) != 3 || errs[0] != nil || !errors.Is(errs[1], syscall.ENOMEM) || !errors.Is(errs[2], syscall.ENOENT) {
		t.Errorf("errors %v", errs)
	}
	f.LoseNth(1)
	errs = f.Do(t.Context(), ops[1:2])
	if len(errs) != 1 || !errors.Is(errs[0], ipvsutil.ErrUnknownOutcome) {
		t.Errorf("errors %v", errs)
	}
	if got, want := f.Dump(), "vs 10.96.0.1:80/tcp rr\nrs 10.96.0.1:80/tcp 10.244.1.2:8080 w1\n"; got != want {
		t.Errorf("there is\n%s, want\n%s", got, want)
	}
	f.Fail(func(r fake.IPVSRequest) error {
		if r.List != "" {
			return syscall.EPERM
		}
		return nil
	})
	if _, err := f.VirtualServers(t.Context()); !errors.Is(err, syscall.EPERM) {
		t.Errorf("list: %v", err)
	}
	if got := f.Counts().Failed; got != 3 {
		t.Errorf("%d failed", got)
	}
	f.Fail(nil)
	if _, err := f.VirtualServers(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestIPVSStrangeHand(t *testing.T) {
	f := fake.NewIPVS()
	foreign := web
	foreign.Foreign, foreign.Scheduler = true, "gone"
	f.Put(foreign)
	f.PutReal(web.Key, ipvsutil.RealServerState{RealServer: pod, Connections: ipvsutil.Connections{Active: 2}})
	f.Put(foreign)
	if errs := f.Do(t.Context(), []ipvsutil.Op{op(ipvsutil.UpdateVirtualServer), op(ipvsutil.UpdateRealServer)}); errs != nil {
		t.Fatal(errs)
	}
	reals, err := f.RealServers(t.Context(), web.Key)
	if err != nil || len(reals) != 1 || reals[0].Connections.Active != 2 {
		t.Errorf("real servers %v, error %v", reals, err)
	}
	f.RemoveReal(web.Key, pod.Addr)
	f.Remove(ipvsutil.MarkKey(1, true))
	if got, want := f.Dump(), "vs 10.96.0.1:80/tcp rr\n"; got != want {
		t.Errorf("there is\n%s, want\n%s", got, want)
	}
	f.Remove(web.Key)
	if got := f.Dump(); got != "" {
		t.Errorf("there is\n%s", got)
	}
}

func TestIPVSFewSchedulers(t *testing.T) {
	f := fake.NewIPVS("wlc")
	errs := f.Do(t.Context(), []ipvsutil.Op{op(ipvsutil.CreateVirtualServer)})
	if len(errs) != 1 || !errors.Is(errs[0], ipvsutil.ErrUnknownScheduler) {
		t.Errorf("errors %v", errs)
	}
}
