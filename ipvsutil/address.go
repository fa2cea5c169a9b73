package ipvsutil

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// DefaultCaptureRoutes are the numbers used unless the operator moves them. The
// rule comes right after the kernel's local table, long before what CNIs add. The
// protocol is none of those in iproute2's rt_protos nor one that FRR (186-198),
// Calico (80), Cilium (30) or kube-router (17) sign their routes with.
var DefaultCaptureRoutes = CaptureRoutes{Mark: 0x8000, Table: 0x4950, Priority: 98, Protocol: 150}

// Validate reports numbers that could not work or would touch what is not ours:
// no mark, one of the kernel's own tables, a rule before the local table or after
// main, a protocol number that the kernel or a boot script signs with.
func (r CaptureRoutes) Validate() error {
	switch {
	case r.Mark == 0:
		return errors.New("capture mark is zero: every packet would be captured")
	case r.Table == 0 || r.Table >= 253 && r.Table <= 255:
		return fmt.Errorf("capture table %d belongs to the kernel: choose another", r.Table)
	case r.Priority == 0 || r.Priority >= 32766:
		return fmt.Errorf("capture rule priority %d: want 1 to 32765 (between tables local and main)", r.Priority)
	case r.Protocol <= 4:
		return fmt.Errorf("capture route protocol %d is used by the kernel and the administrator: choose 5 to 255", r.Protocol)
	}
	return nil
}

// ErrNoDevice: Device is missing; Ensure makes it.
var ErrNoDevice = errors.New("device " + Device + " is missing")

// ErrNoDummy: the kernel cannot make dummy devices (module missing or not loadable).
var ErrNoDummy = errors.New("kernel has no dummy devices: module dummy is missing (try: modprobe dummy)")

// ErrIPv6Disabled: the kernel refuses IPv6 on the device that carries the address.
var ErrIPv6Disabled = errors.New("IPv6 is disabled (sysctl disable_ipv6)")

// CheckAddress reports an address that can be neither bound nor captured, as an
// error that is fs.ErrInvalid: the kernel would take some of them and break the node.
func CheckAddress(addr netip.Addr) error {
	switch {
	case !addr.IsValid(), addr.Is4In6(), addr.Zone() != "", addr.IsUnspecified(),
		addr.IsMulticast(), addr.IsLoopback(), addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}),
		addr.Is6() && addr.IsLinkLocalUnicast():
		return fmt.Errorf("%v is no address of a Service: %w", addr, fs.ErrInvalid)
	}
	return nil
}

// Addresses is the door to the addresses of one network namespace: those bound to
// Device (every ClusterIP), and those captured by a local route in a table of our
// own (external addresses, which stay with their true owner for all other ports).
// Bind of a bound address gives fs.ErrExist, Unbind of a missing one
// fs.ErrNotExist; the same holds for Capture and Release. All work in batches:
// they return nil when all succeeded, else one error (or nil) an address; what
// CheckAddress refuses gives fs.ErrInvalid. A failed listing gives no addresses at
// all, never a part of them. Without Device nothing is bound: Bound is empty, Bind
// gives ErrNoDevice, and Unbind gives an error that is both ErrNoDevice and
// fs.ErrNotExist. All errors are *OpError.
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
	// Leave prepares that bound addresses are unbound: processes of this host that ask
	// them from now on do so from an own address of the host, which outlives that. What
	// they began before goes on. Twice is once; Unbind undoes it.
	Leave(ctx context.Context, addrs []netip.Addr) []error
	// InUse returns those of the addresses from which processes of this host have a TCP
	// connection or a connected UDP socket, in no order. They lose it when the address goes.
	InUse(ctx context.Context, addrs []netip.Addr) ([]netip.Addr, error)
}
