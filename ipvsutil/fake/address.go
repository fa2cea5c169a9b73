package fake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"kube-ipvs-proxy/ipvsutil"
)

// AddressCounts says what was asked of an Addresses double. Each address counts.
type AddressCounts struct {
	Ensure, Bind, Unbind, Leave, Capture, Release, List int
	// Written is how often Ensure had to make the device or the rules.
	Written int
	// Needless counts requests to make what was there or to remove what was not.
	Needless int
	// Failed counts requests refused by Fail or FailNth.
	Failed int
}

// AddressRequest is one request as the hook Addresses.Fail sees it.
type AddressRequest struct {
	Op   string     // ensure, bind, unbind, leave, bound, capture, release, captured, in use
	Addr netip.Addr // not valid for ensure, bound, captured and in use
}

// Addresses is the double of ipvsutil/kernel's Addresses, as strict as the kernel
// and safe for several goroutines. The zero value is a namespace without device.
type Addresses struct {
	mu       sync.Mutex
	device   bool
	rules    bool
	bound    map[netip.Addr]struct{}
	captured map[netip.Addr]struct{}
	left     map[netip.Addr]struct{}
	used     []netip.Addr
	counts   AddressCounts
	fail     func(AddressRequest) error
}

// NewAddresses returns the double of an empty namespace: no device, no rules.
func NewAddresses() *Addresses { return &Addresses{} }

var _ ipvsutil.Addresses = (*Addresses)(nil)

// Fail sets a hook that is asked before each request; its error is what the
// request gives, and nothing is changed by it. Nil ends the failures.
func (a *Addresses) Fail(hook func(AddressRequest) error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fail = hook
}

// FailNth lets the n-th request from now (1 is the next; each address of a batch
// is one) fail with err, and only that one. It replaces the hook of Fail.
func (a *Addresses) FailNth(n int, err error) {
	a.Fail(func(AddressRequest) error {
		if n--; n == 0 {
			return err
		}
		return nil
	})
}

// Counts returns what was asked since the start or the last ResetCounts.
func (a *Addresses) Counts() AddressCounts {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts
}

// ResetCounts sets all counts to zero.
func (a *Addresses) ResetCounts() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts = AddressCounts{}
}

// RemoveDevice does what "ip link del" by another hand does: the device and all
// that was bound to it are gone, captured addresses stay.
func (a *Addresses) RemoveDevice(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.device, a.bound, a.left = false, nil, nil
	return nil
}

// RemoveRules drops the policy rules, as another hand might do.
func (a *Addresses) RemoveRules(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rules = false
	return nil
}

// Use sets the addresses from which processes have connections.
func (a *Addresses) Use(addrs ...netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.used = addrs
}

// InUse implements ipvsutil.Addresses.
func (a *Addresses) InUse(ctx context.Context, addrs []netip.Addr) ([]netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts.List++
	if err := a.refuse(ctx, AddressRequest{Op: "in use"}); err != nil {
		return nil, &ipvsutil.OpError{Op: "list", Object: "connections of processes", Err: err}
	}
	return slices.DeleteFunc(slices.Clone(addrs), func(addr netip.Addr) bool { return !slices.Contains(a.used, addr) }), nil
}

// Dump returns one sorted line an address, such as "addr 10.96.0.10" for a bound
// and "route 203.0.113.9" for a captured one.
func (a *Addresses) Dump() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var b strings.Builder
	for _, addr := range sorted(a.bound) {
		fmt.Fprintf(&b, "addr %s\n", addr)
	}
	for _, addr := range sorted(a.captured) {
		fmt.Fprintf(&b, "route %s\n", addr)
	}
	return b.String()
}

// Ensure implements ipvsutil.Addresses.
func (a *Addresses) Ensure(ctx context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts.Ensure++
	if err := a.refuse(ctx, AddressRequest{Op: "ensure"}); err != nil {
		return &ipvsutil.OpError{Op: "ensure", Object: ipvsutil.Device, Err: err}
	}
	if !a.device || !a.rules {
		a.counts.Written++
	}
	a.device, a.rules = true, true
	return nil
}

// Bind implements ipvsutil.Addresses.
func (a *Addresses) Bind(ctx context.Context, addrs []netip.Addr) []error {
	return a.each(ctx, "bind", &a.counts.Bind, addrs, func(addr netip.Addr) error {
		if !a.device {
			return ipvsutil.ErrNoDevice
		}
		return put(&a.bound, addr)
	})
}

// Unbind implements ipvsutil.Addresses.
func (a *Addresses) Unbind(ctx context.Context, addrs []netip.Addr) []error {
	return a.each(ctx, "unbind", &a.counts.Unbind, addrs, func(addr netip.Addr) error {
		if !a.device {
			return errors.Join(ipvsutil.ErrNoDevice, fs.ErrNotExist)
		}
		delete(a.left, addr)
		return take(a.bound, addr)
	})
}

// Leave implements ipvsutil.Addresses.
func (a *Addresses) Leave(ctx context.Context, addrs []netip.Addr) []error {
	return a.each(ctx, "leave", &a.counts.Leave, addrs, func(addr netip.Addr) error {
		if !a.device {
			return errors.Join(ipvsutil.ErrNoDevice, fs.ErrNotExist)
		}
		if _, bound := a.bound[addr]; !bound {
			return fs.ErrNotExist
		}
		_ = put(&a.left, addr) // twice is once
		return nil
	})
}

// Left returns the addresses that Leave was called for and that are still bound, sorted.
func (a *Addresses) Left() []netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	return sorted(a.left)
}

// Capture implements ipvsutil.Addresses.
func (a *Addresses) Capture(ctx context.Context, addrs []netip.Addr) []error {
	return a.each(ctx, "capture", &a.counts.Capture, addrs, func(addr netip.Addr) error {
		return put(&a.captured, addr)
	})
}

// Release implements ipvsutil.Addresses.
func (a *Addresses) Release(ctx context.Context, addrs []netip.Addr) []error {
	return a.each(ctx, "release", &a.counts.Release, addrs, func(addr netip.Addr) error {
		return take(a.captured, addr)
	})
}

// Bound implements ipvsutil.Addresses; the addresses are sorted.
func (a *Addresses) Bound(ctx context.Context) ([]netip.Addr, error) {
	return a.list(ctx, "bound", &a.bound)
}

// Captured implements ipvsutil.Addresses; the addresses are sorted.
func (a *Addresses) Captured(ctx context.Context) ([]netip.Addr, error) {
	return a.list(ctx, "captured", &a.captured)
}

// each runs one request an address and gathers the errors as the contract says.
func (a *Addresses) each(ctx context.Context, op string, count *int, addrs []netip.Addr, do func(netip.Addr) error) []error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for i, addr := range addrs {
		*count++
		err := a.refuse(ctx, AddressRequest{Op: op, Addr: addr})
		if err == nil {
			err = ipvsutil.CheckAddress(addr)
		}
		if err == nil {
			if err = do(addr); errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
				a.counts.Needless++
			}
		}
		if err == nil {
			continue
		}
		if errs == nil {
			errs = make([]error, len(addrs))
		}
		errs[i] = &ipvsutil.OpError{Op: op, Object: addr.String(), Err: err}
	}
	return errs
}

func (a *Addresses) list(ctx context.Context, op string, from *map[netip.Addr]struct{}) ([]netip.Addr, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.counts.List++
	if err := a.refuse(ctx, AddressRequest{Op: op}); err != nil {
		return nil, &ipvsutil.OpError{Op: "list", Object: op + " addresses", Err: err}
	}
	return sorted(*from), nil
}

// refuse asks for the reasons why a request does not even reach the kernel.
func (a *Addresses) refuse(ctx context.Context, r AddressRequest) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if a.fail == nil {
		return nil
	}
	err := a.fail(r)
	if err != nil {
		a.counts.Failed++
	}
	return err
}

func put(set *map[netip.Addr]struct{}, addr netip.Addr) error {
	if _, ok := (*set)[addr]; ok {
		return fs.ErrExist
	}
	if *set == nil {
		*set = map[netip.Addr]struct{}{}
	}
	(*set)[addr] = struct{}{}
	return nil
}

func take(set map[netip.Addr]struct{}, addr netip.Addr) error {
	if _, ok := set[addr]; !ok {
		return fs.ErrNotExist
	}
	delete(set, addr)
	return nil
}

func sorted(set map[netip.Addr]struct{}) []netip.Addr {
	return slices.SortedFunc(maps.Keys(set), netip.Addr.Compare)
}
