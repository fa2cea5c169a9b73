package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
)

// addressOp is one of the four batch operations on addresses.
type addressOp func(ctx context.Context, addrs []netip.Addr) []error

// bind binds and captures what is desired and missing. An address with a server
// that could not be made waits: bound alone it would lead to the host's own ports.
func (r *Reconciler) bind(ctx context.Context, report *Report, work ledger.Touched, missing map[ipvsutil.Key]bool) {
	wait := map[netip.Addr]bool{}
	for key := range missing {
		wait[key.Addr.Addr()] = true
	}
	pick := func(touched map[netip.Addr]struct{}, there map[netip.Addr]bool, wanted func(netip.Addr) bool, failed *map[netip.Addr]struct{}) []netip.Addr {
		var addrs []netip.Addr
		for _, a := range sortedAddrs(touched) {
			switch {
			case !wanted(a) || there[a]:
			case wait[a]:
				*failed = set(*failed, a)
			default:
				addrs = append(addrs, a)
			}
		}
		return addrs
	}
	add := pick(work.Bound, r.observed.bound, r.desired.Bound, &r.failed.Bound)
	r.address(ctx, report, r.doors.Addresses.Bind, add, r.observed.bound, true, &r.failed.Bound)
	add = pick(work.Captured, r.observed.captured, r.desired.Captured, &r.failed.Captured)
	r.address(ctx, report, r.doors.Addresses.Capture, add, r.observed.captured, true, &r.failed.Captured)
}

// unbind unbinds and releases what is there and not desired.
func (r *Reconciler) unbind(ctx context.Context, report *Report, work ledger.Touched) {
	pick := func(touched map[netip.Addr]struct{}, there map[netip.Addr]bool, wanted func(netip.Addr) bool) []netip.Addr {
		var addrs []netip.Addr
		for _, a := range sortedAddrs(touched) {
			if there[a] && !wanted(a) {
				addrs = append(addrs, a)
			}
		}
		return addrs
	}
	gone := pick(work.Bound, r.observed.bound, r.desired.Bound)
	r.address(ctx, report, r.doors.Addresses.Unbind, gone, r.observed.bound, false, &r.failed.Bound)
	gone = pick(work.Captured, r.observed.captured, r.desired.Captured)
	r.address(ctx, report, r.doors.Addresses.Release, gone, r.observed.captured, false, &r.failed.Captured)
}

// address performs one batch. An address that is there already, or gone already,
// is as it should be.
func (r *Reconciler) address(ctx context.Context, report *Report, op addressOp, addrs []netip.Addr,
	there map[netip.Addr]bool, present bool, failed *map[netip.Addr]struct{}) {
	if len(addrs) == 0 {
		return
	}
	report.Ops += len(addrs)
	errs := op(ctx, addrs)
	for i, a := range addrs {
		var err error
		if errs != nil {
			err = errs[i]
		}
		already := present && errors.Is(err, fs.ErrExist) || !present && errors.Is(err, fs.ErrNotExist)
		if err != nil && !already {
			report.fail(err)
			r.fail(err)
			*failed = set(*failed, a)
			continue
		}
		if present {
			there[a] = true
		} else {
			delete(there, a)
		}
	}
}
