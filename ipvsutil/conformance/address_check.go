package conformance

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
)

func parse(addrs ...string) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func ensure(t *testing.T, a Addresses) {
	t.Helper()
	if err := a.Ensure(t.Context()); err != nil {
		t.Fatalf("ensure: %v", err)
	}
}

// none fails the test when a batch did not give nil, which is its word for "all done".
func none(t *testing.T, what string, errs []error) {
	t.Helper()
	if errs != nil {
		t.Fatalf("%s: %v, want nil", what, errs)
	}
}

// all returns the errors of a batch that must have given one place an address.
func all(t *testing.T, errs []error, n int) []error {
	t.Helper()
	if len(errs) != n {
		t.Fatalf("%d errors for %d addresses: %v", len(errs), n, errs)
	}
	return errs
}

// is checks the error's meaning, and that it is an OpError which names the address.
func is(t *testing.T, err, target error, addr netip.Addr) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("%s: error is %v, want %v", addr, err, target)
		return
	}
	var op *ipvsutil.OpError
	if !errors.As(err, &op) || op.Object != addr.String() {
		t.Errorf("error %q is no OpError of %s", err, addr)
	}
}

// equal compares what is bound and captured; both come sorted.
func equal(t *testing.T, a Addresses, bound, captured string) {
	t.Helper()
	got, err := a.Bound(t.Context())
	if want := parse(strings.Fields(bound)...); err != nil || !slices.Equal(got, want) {
		t.Fatalf("bound: %v (%v), want %v", got, err, want)
	}
	got, err = a.Captured(t.Context())
	if want := parse(strings.Fields(captured)...); err != nil || !slices.Equal(got, want) {
		t.Fatalf("captured: %v (%v), want %v", got, err, want)
	}
}
