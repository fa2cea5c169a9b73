package reconcile

import (
	"context"
	"net/netip"
	"time"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
)

// doubts are the parts of the picture that may be wrong and are read before the
// next operations. The value says whether somebody else must have changed them, so
// that putting them right is a repair.
type doubts struct {
	all       bool
	servers   map[ipvsutil.Key]bool
	sets      map[string]bool
	addresses bool
	outside   bool // of addresses
	retry     attempt
}

func (d *doubts) server(key ipvsutil.Key, outside bool) {
	if d.servers == nil {
		d.servers = map[ipvsutil.Key]bool{}
	}
	d.servers[key] = d.servers[key] || outside
}

func (d *doubts) set(name string, outside bool) {
	if d.sets == nil {
		d.sets = map[string]bool{}
	}
	d.sets[name] = d.sets[name] || outside
}

func (d *doubts) address(outside bool) {
	d.addresses, d.outside = true, d.outside || outside
}

func (d *doubts) any() bool {
	return d.all || d.addresses || len(d.servers) > 0 || len(d.sets) > 0
}

// Doubt has the next round read all of the kernel anew, and the rules.
func (r *Reconciler) Doubt() {
	r.doubts.all = true
	r.rules.wanted = true
}

// DeviceLost has the next round make the device of the bound addresses anew, and
// all that was on it.
func (r *Reconciler) DeviceLost() { r.doubts.address(true) }

// Unbound tells of addresses that went from the device. Those that should be there
// were removed by others; the others by us.
func (r *Reconciler) Unbound(addrs []netip.Addr) {
	for _, a := range addrs {
		if has(r.seen.bound, a) {
			r.DeviceLost()
			return
		}
	}
}

// settleDoubts reads what is in doubt. What differs from the picture becomes
// pending. It reports whether there is a picture at all, without which nothing may
// be done; a doubt that cannot be settled now is tried again later, and all else
// goes on.
func (r *Reconciler) settleDoubts(ctx context.Context, report *Report) (known bool) {
	now := time.Now()
	if !r.doubts.any() || r.doubts.retry.failures > 0 && !r.doubts.retry.due(now) {
		return r.known
	}
	d := r.doubts
	r.doubts = doubts{}
	if r.read(ctx, report, d) {
		r.known = r.known || d.all
	} else {
		r.doubts.all = r.doubts.all || d.all
	}
	if r.doubts.any() {
		r.doubts.retry = d.retry.failed(now)
	}
	return r.known
}

// read reads the doubted parts; each that fails stays in doubt. It reports whether
// all lists were read. A single set or server that cannot be read is no hindrance:
// it is left alone.
func (r *Reconciler) read(ctx context.Context, report *Report, d doubts) bool {
	good := true
	if (d.all || len(d.sets) > 0) && !r.readSets(ctx, report, d.all, d.sets) {
		good = false
		for name, outside := range d.sets {
			r.doubts.set(name, outside)
		}
	}
	if (d.all || d.addresses) && !r.readAddresses(ctx, report, d.all || d.outside) {
		good = false
		r.doubts.address(d.outside)
	}
	if !good && !r.known {
		return false // what is ours cannot be told
	}
	if (d.all || len(d.servers) > 0) && !r.readServers(ctx, report, d.all, d.servers) {
		good = false
		for key, outside := range d.servers {
			r.doubts.server(key, outside)
		}
	}
	return good
}

// postpone takes out of work what is in doubt: it waits until it was read, and no
// more for its own time.
func (r *Reconciler) postpone(work *ledger.Touched) {
	if !r.doubts.any() {
		return
	}
	var later ledger.Touched
	for key := range r.doubts.servers {
		if has(work.Servers, key) {
			delete(work.Servers, key)
			later.Servers = set(later.Servers, key)
		}
	}
	for m := range work.Members {
		if _, doubted := r.doubts.sets[m.Set]; doubted {
			delete(work.Members, m)
			later.Members = set(later.Members, m)
		}
	}
	if r.doubts.addresses {
		later.Bound, later.Captured = work.Bound, work.Captured
		work.Bound, work.Captured = nil, nil
	}
	r.failing.forget(later)
	r.waiting.Merge(later)
}

// again reads what came into doubt in this round, and works once more on that, on
// what differed, and on what waits for it.
func (r *Reconciler) again(ctx context.Context, report *Report, work *ledger.Touched) {
	d := r.doubts
	r.settleDoubts(ctx, report)
	more := r.pending
	more.Merge(r.waiting)
	r.pending, r.waiting = ledger.Touched{}, ledger.Touched{}
	for key := range d.servers {
		more.Servers = set(more.Servers, key)
		delete(r.failed.Servers, key)
	}
	for m := range r.failed.Members {
		if _, doubted := d.sets[m.Set]; doubted {
			more.Members = set(more.Members, m)
			delete(r.failed.Members, m)
		}
	}
	if d.addresses {
		more.Merge(ledger.Touched{Bound: r.failed.Bound, Captured: r.failed.Captured})
		r.failed.Bound, r.failed.Captured = nil, nil
	}
	r.apply(ctx, report, &more)
	work.Merge(more)
}
