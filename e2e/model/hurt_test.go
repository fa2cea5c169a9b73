//go:build kernel

package model

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"syscall"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/reconcile"
)

// errDead is what a dead process would not even see.
var errDead = errors.New("the process is dead")

// errnos are what netlink fails with when it is none of our fault.
var errnos = []error{syscall.EINTR, syscall.ENOBUFS, syscall.ENOMEM, syscall.EBUSY, ipvsutil.ErrUnknownOutcome}

// hurt stands between an agent and its doors. The zero value does nothing.
type hurt struct {
	mu sync.Mutex
	// faults is the source of faults; nil: none. Each operation fails with chance 1 in
	// oneIn.
	faults *rand.Rand
	oneIn  int
	// left is the number of operations until death; zero: it lives.
	left int
	dead bool
	died func()
}

// fail makes one in n operations fail.
func (h *hurt) fail(random *rand.Rand, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faults, h.oneIn = random, n
}

func (h *hurt) heal() { h.fail(nil, 0) }

// dieAfter kills the agent after n more operations.
func (h *hurt) dieAfter(n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left = n
}

// next decides about one operation: whether it is done, and what is told then.
func (h *hurt) next() (do bool, told error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.dead {
		return false, errDead
	}
	if h.left > 0 {
		if h.left--; h.left == 0 {
			h.dead = true
			h.died()
			return false, errDead
		}
	}
	if h.faults == nil || h.faults.IntN(h.oneIn) != 0 {
		return true, nil
	}
	told = errnos[h.faults.IntN(len(errnos))]
	return errors.Is(told, ipvsutil.ErrUnknownOutcome) && h.faults.IntN(2) == 0, told
}

func (h *hurt) doors(d reconcile.Doors) reconcile.Doors {
	hurt := reconcile.Doors{
		IPVS: hurtIPVS{d.IPVS, h}, Sets: hurtSets{d.Sets, h}, Addresses: hurtAddresses{d.Addresses, h},
		Rules: hurtRules{d.Rules, h},
	}
	if d.Flows != nil {
		hurt.Flows = hurtFlows{d.Flows, h}
	}
	return hurt
}

// each does items one by one as next says; do gives the error of one.
func each[T any](h *hurt, items []T, do func(T) []error, fault func(T, error) error) []error {
	errs, failed := make([]error, len(items)), false
	for i, item := range items {
		really, told := h.next()
		if really {
			if of := do(item); len(of) == 1 {
				errs[i] = of[0]
			}
		}
		if told != nil {
			errs[i] = fault(item, told)
		}
		failed = failed || errs[i] != nil
	}
	if !failed {
		return nil
	}
	return errs
}

// one is for a request that is a question.
func one[T any](h *hurt, ask func() (T, error)) (T, error) {
	if _, told := h.next(); told != nil {
		var none T
		return none, told
	}
	return ask()
}

type hurtIPVS struct {
	door ipvsutil.IPVS
	hurt *hurt
}

func (d hurtIPVS) Do(ctx context.Context, ops []ipvsutil.Op) []error {
	return each(d.hurt, ops, func(op ipvsutil.Op) []error { return d.door.Do(ctx, []ipvsutil.Op{op}) },
		func(op ipvsutil.Op, err error) error {
			return &ipvsutil.OpError{Op: op.Verb.String(), Object: op.Server.Key.String(), Err: err}
		})
}

func (d hurtIPVS) VirtualServers(ctx context.Context) ([]ipvsutil.VirtualServer, error) {
	return one(d.hurt, func() ([]ipvsutil.VirtualServer, error) { return d.door.VirtualServers(ctx) })
}

func (d hurtIPVS) RealServers(ctx context.Context, key ipvsutil.Key) ([]ipvsutil.RealServerState, error) {
	return one(d.hurt, func() ([]ipvsutil.RealServerState, error) { return d.door.RealServers(ctx, key) })
}

type hurtSets struct {
	ipsetutil.Sets
	hurt *hurt
}

func (d hurtSets) Create(ctx context.Context, s ipsetutil.Set) error {
	_, err := one(d.hurt, func() (struct{}, error) { return struct{}{}, d.Sets.Create(ctx, s) })
	return err
}

func (d hurtSets) Headers(ctx context.Context) (map[string]ipsetutil.Header, error) {
	return one(d.hurt, func() (map[string]ipsetutil.Header, error) { return d.Sets.Headers(ctx) })
}

func (d hurtSets) Swap(ctx context.Context, a, b string) error {
	_, err := one(d.hurt, func() (struct{}, error) { return struct{}{}, d.Sets.Swap(ctx, a, b) })
	return err
}

func (d hurtSets) Members(ctx context.Context, set string) (map[ipsetutil.Entry]uint32, error) {
	return one(d.hurt, func() (map[ipsetutil.Entry]uint32, error) { return d.Sets.Members(ctx, set) })
}

func (d hurtSets) Do(ctx context.Context, changes []ipsetutil.Change) []error {
	return each(d.hurt, changes, func(c ipsetutil.Change) []error { return d.Sets.Do(ctx, []ipsetutil.Change{c}) },
		func(c ipsetutil.Change, err error) error {
			return &ipsetutil.OpError{Op: "change", Object: c.String(), Err: err}
		})
}

type hurtAddresses struct {
	door ipvsutil.Addresses
	hurt *hurt
}

func (d hurtAddresses) Ensure(ctx context.Context) error {
	_, err := one(d.hurt, func() (struct{}, error) { return struct{}{}, d.door.Ensure(ctx) })
	return err
}

func (d hurtAddresses) each(addrs []netip.Addr, do func([]netip.Addr) []error) []error {
	return each(d.hurt, addrs, func(a netip.Addr) []error { return do([]netip.Addr{a}) },
		func(a netip.Addr, err error) error {
			return &ipvsutil.OpError{Op: "change", Object: a.String(), Err: err}
		})
}

func (d hurtAddresses) Bind(ctx context.Context, addrs []netip.Addr) []error {
	return d.each(addrs, func(a []netip.Addr) []error { return d.door.Bind(ctx, a) })
}

func (d hurtAddresses) Unbind(ctx context.Context, addrs []netip.Addr) []error {
	return d.each(addrs, func(a []netip.Addr) []error { return d.door.Unbind(ctx, a) })
}

func (d hurtAddresses) Capture(ctx context.Context, addrs []netip.Addr) []error {
	return d.each(addrs, func(a []netip.Addr) []error { return d.door.Capture(ctx, a) })
}

func (d hurtAddresses) Release(ctx context.Context, addrs []netip.Addr) []error {
	return d.each(addrs, func(a []netip.Addr) []error { return d.door.Release(ctx, a) })
}

func (d hurtAddresses) Leave(ctx context.Context, addrs []netip.Addr) []error {
	return d.each(addrs, func(a []netip.Addr) []error { return d.door.Leave(ctx, a) })
}

func (d hurtAddresses) Bound(ctx context.Context) ([]netip.Addr, error) {
	return one(d.hurt, func() ([]netip.Addr, error) { return d.door.Bound(ctx) })
}

func (d hurtAddresses) Captured(ctx context.Context) ([]netip.Addr, error) {
	return one(d.hurt, func() ([]netip.Addr, error) { return d.door.Captured(ctx) })
}

func (d hurtAddresses) InUse(ctx context.Context, addrs []netip.Addr) ([]netip.Addr, error) {
	return one(d.hurt, func() ([]netip.Addr, error) { return d.door.InUse(ctx, addrs) })
}

type hurtRules struct {
	door reconcile.Rules
	hurt *hurt
}

func (d hurtRules) Ensure(ctx context.Context) (bool, error) {
	return one(d.hurt, func() (bool, error) { return d.door.Ensure(ctx) })
}

type hurtFlows struct {
	door reconcile.Flows
	hurt *hurt
}

func (d hurtFlows) DeleteFlows(ctx context.Context, stale []ipvsutil.StaleFlow) (int, error) {
	return one(d.hurt, func() (int, error) { return d.door.DeleteFlows(ctx, stale) })
}
