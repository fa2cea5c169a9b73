package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"slices"

	"kube-ipvs-proxy/proxier/ledger"
)

// addressOp is one of the four batch operations on addresses.
type addressOp func(ctx context.Context, addrs []netip.Addr) []error

// addressKind is what an address is wanted as: bound or captured.
type addressKind struct {
	kind       string
	touched    map[netip.Addr]struct{}
	seen       map[netip.Addr]struct{}
	wanted     func(netip.Addr) bool
	add, drop  addressOp
	failed     *map[netip.Addr]struct{}
	waiting    *map[netip.Addr]struct{}
	mustHaveIt map[netip.Addr]bool // addresses with an entry that could not be added
}

func (r *Reconciler) addressKinds(work ledger.Touched) [2]addressKind {
	held := r.held().addrs
	return [2]addressKind{
		{
			kind: "address", touched: work.Bound, seen: r.seen.bound, wanted: r.wantBound,
			add: r.doors.Addresses.Bind, drop: r.doors.Addresses.Unbind,
			failed: &r.failed.Bound, waiting: &r.waiting.Bound, mustHaveIt: held,
		},
		{
			kind: "route", touched: work.Captured, seen: r.seen.captured, wanted: r.wantCaptured,
			add: r.doors.Addresses.Capture, drop: r.doors.Addresses.Release,
			failed: &r.failed.Captured, waiting: &r.waiting.Captured, mustHaveIt: held,
		},
	}
}

// bind binds and captures what is wanted and missing. An address with a server that
// could neither be made nor shielded waits: it would lead to the host's own ports.
func (r *Reconciler) bind(ctx context.Context, report *Report, work ledger.Touched) {
	missing := r.missingServers()
	for _, k := range r.addressKinds(work) {
		var addrs []netip.Addr
		for _, a := range sortedAddrs(k.touched) {
			switch {
			case !k.wanted(a) || has(k.seen, a) || has(*k.failed, a):
			case missing[a] || k.mustHaveIt[a]:
				*k.waiting = set(*k.waiting, a)
			default:
				addrs = append(addrs, a)
			}
		}
		r.address(ctx, report, k, "create", addrs)
	}
}

// missingServers are the addresses with a server that is wanted, failed to come and
// is not shielded.
func (r *Reconciler) missingServers() map[netip.Addr]bool {
	missing := map[netip.Addr]bool{}
	for key := range r.troubled() {
		if r.missing(key) && !r.isShielded(key) {
			missing[key.Addr.Addr()] = true
		}
	}
	return missing
}

// unbind unbinds and releases what is there and not wanted. The address of a server
// that waits to be read stays: connections may go on.
func (r *Reconciler) unbind(ctx context.Context, report *Report, work ledger.Touched) {
	unread := map[netip.Addr]bool{}
	for key := range r.doubts.servers {
		unread[key.Addr.Addr()] = true
	}
	for _, k := range r.addressKinds(work) {
		var addrs []netip.Addr
		for a := range k.touched {
			switch {
			case !has(k.seen, a) || k.wanted(a) || has(*k.failed, a):
			case unread[a]:
				*k.waiting = set(*k.waiting, a)
			default:
				addrs = append(addrs, a)
			}
		}
		slices.SortFunc(addrs, netip.Addr.Compare)
		if k.kind == "address" {
			addrs = r.unused(ctx, report, addrs)
		}
		r.address(ctx, report, k, "delete", addrs)
	}
}

// address performs one batch. An address that is there already, or gone already,
// is as it should be; but somebody else has done that, and maybe more.
func (r *Reconciler) address(ctx context.Context, report *Report, k addressKind, verb string, addrs []netip.Addr) {
	if len(addrs) == 0 {
		return
	}
	op, already := k.add, fs.ErrExist
	if verb == "delete" {
		op, already = k.drop, fs.ErrNotExist
	}
	errs := op(ctx, addrs)
	succeeded := streak{report: report}
	for i, a := range addrs {
		var err error
		if errs != nil {
			err = errs[i]
		}
		if errors.Is(err, already) {
			r.doubts.address(true)
			err = nil
		}
		switch {
		case err != nil:
			report.count(k.kind, verb, err)
			*k.failed = set(*k.failed, a)
			if outside, doubtful := doubt(err); doubtful {
				r.doubts.address(outside)
			}
		case verb == "create":
			k.seen[a] = struct{}{}
		default:
			delete(k.seen, a)
		}
		if err == nil {
			succeeded.add(Operation{k.kind, verb})
		}
	}
	succeeded.end()
}

// sortedAddrs are the keys in order, so that two runs do the same.
func sortedAddrs(keys map[netip.Addr]struct{}) []netip.Addr {
	return slices.SortedFunc(maps.Keys(keys), netip.Addr.Compare)
}
