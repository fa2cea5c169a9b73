package fake_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/conformance"
	"kube-ipvs-proxy/ipvsutil/fake"
)

func TestAddressConformance(t *testing.T) {
	conformance.RunAddresses(t, func(*testing.T) conformance.Addresses { return fake.NewAddresses() })
}

func TestAddressDumpAndCounts(t *testing.T) {
	ctx := context.Background()
	a := fake.NewAddresses()
	if err := a.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	one, two := netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("203.0.113.9")
	if errs := a.Bind(ctx, []netip.Addr{one, two}); errs != nil {
		t.Fatal(errs)
	}
	if errs := a.Bind(ctx, []netip.Addr{one}); errs == nil {
		t.Fatal("bound twice")
	}
	if errs := a.Unbind(ctx, []netip.Addr{two}); errs != nil {
		t.Fatal(errs)
	}
	if errs := a.Capture(ctx, []netip.Addr{two}); errs != nil {
		t.Fatal(errs)
	}
	if got, want := a.Dump(), "addr 10.96.0.10\nroute 203.0.113.9\n"; got != want {
		t.Errorf("dump:\n%swant:\n%s", got, want)
	}
	want := fake.AddressCounts{Ensure: 1, Written: 1, Bind: 3, Unbind: 1, Capture: 1, Needless: 1}
	if got := a.Counts(); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
}

func TestAddressFailNth(t *testing.T) {
	ctx := context.Background()
	a := fake.NewAddresses()
	if err := a.Ensure(ctx); err != nil {
		t.Fatal(err)
	}
	addrs := []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.96.0.2"), netip.MustParseAddr("fd00::3")}
	boom := errors.New("boom")
	a.FailNth(2, boom)
	errs := a.Bind(ctx, addrs)
	if len(errs) != 3 || errs[0] != nil || !errors.Is(errs[1], boom) || errs[2] != nil {
		t.Fatalf("errors %v, want the second only", errs)
	}
	var op *ipvsutil.OpError
	if !errors.As(errs[1], &op) || op.Object != "10.96.0.2" {
		t.Errorf("error %v does not name the address", errs[1])
	}
	if got, want := a.Dump(), "addr 10.96.0.1\naddr fd00::3\n"; got != want {
		t.Errorf("dump %q, want %q", got, want)
	}
	a.FailNth(1, boom)
	if got, err := a.Bound(ctx); !errors.Is(err, boom) || got != nil {
		t.Errorf("failed listing gave %v, %v", got, err)
	}
}
