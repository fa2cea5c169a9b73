package ipvsutil

import (
	"context"
	"net/netip"
)

// Device is the dummy interface that carries the bound addresses, as in
// kube-proxy's ipvs mode. It stays DOWN: local routes are enough for IPVS.
const Device = "kube-ipvs0"

// CaptureRoutes says where captured addresses are routed: a policy rule sends
// packets with Mark (under the mask Mark) to Table, which holds one local route
// for each captured address and never a default route.
type CaptureRoutes struct {
	Mark     uint32
	Table    uint32
	Priority uint32 // of the policy rule; between local (0) and main (32766)
	Protocol uint8  // route protocol number; the sign that a route is ours
}

// Addresses is the door to the addresses of one network namespace: those bound to
// Device (every ClusterIP), and those captured by a local route in a table of our
// own (external addresses, which stay with their true owner for all other ports).
// Bind of a bound address gives fs.ErrExist, Unbind of a missing one
// fs.ErrNotExist; the same holds for Capture and Release. All work in batches:
// they return nil when all succeeded, else one error (or nil) an address.
type Addresses interface {
	// Ensure makes the device and the policy rules when they are missing; twice is
	// once, and nothing is written when all is there.
	Ensure(ctx context.Context) error
	Bind(ctx context.Context, addrs []netip.Addr) []error
	Unbind(ctx context.Context, addrs []netip.Addr) []error
	Bound(ctx context.Context) ([]netip.Addr, error)
	Capture(ctx context.Context, addrs []netip.Addr) []error
	Release(ctx context.Context, addrs []netip.Addr) []error
	Captured(ctx context.Context) ([]netip.Addr, error)
}
