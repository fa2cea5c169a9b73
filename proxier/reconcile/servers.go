package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"maps"
	"net/netip"
	"slices"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
)

// raise returns the operations that create and restore servers, each virtual server
// followed by its real ones so that it stands empty for no longer than must be.
func (r *Reconciler) raise(keys []ipvsutil.Key) []ipvsutil.Op {
	ops := r.ops[:0]
	held := r.held()
	for _, key := range keys {
		want, wanted := r.wantServer(key)
		have, there := r.seen.servers[key]
		switch {
		case !wanted || has(r.failed.Servers, key):
			continue
		case !there && key.Mark != 0 && !r.seen.owns(key):
			continue // it comes with the entry that bears the mark
		case !there && held.hasKey(key):
			r.waiting.Servers = set(r.waiting.Servers, key)
			continue
		case !there:
			ops = append(ops, ipvsutil.Op{Verb: ipvsutil.CreateVirtualServer, Server: want.VirtualServer})
		case have != want.VirtualServer:
			ops = append(ops, ipvsutil.Op{Verb: ipvsutil.UpdateVirtualServer, Server: want.VirtualServer})
		}
		ops = r.raiseReals(ops, want)
	}
	r.ops = ops
	return ops
}

// raiseReals adds the operations that create the real servers of one server, and
// give others their weight, also those that came back while they drained.
func (r *Reconciler) raiseReals(ops []ipvsutil.Op, want ledger.Server) []ipvsutil.Op {
	key := want.Key
	r.remember(key, want)
	have := r.seen.reals[key]
	if have == nil {
		r.seen.reals[key] = make(map[netip.AddrPort]uint32, len(want.RealServers))
	}
	for _, real := range r.mixed(want.RealServers) {
		weight, there := have[real.Addr]
		drained := r.drains[key][real.Addr].kept // of one whose wanted weight is zero, too
		r.drains.remove(key, real.Addr)
		switch {
		case !there:
			ops = append(ops, ipvsutil.Op{Verb: ipvsutil.CreateRealServer, Server: want.VirtualServer, Real: real})
		case weight != real.Weight || drained:
			ops = append(ops, ipvsutil.Op{Verb: ipvsutil.UpdateRealServer, Server: want.VirtualServer, Real: real})
		}
	}
	return ops
}

// remember keeps a Service's own drain timeout beyond the Service.
func (r *Reconciler) remember(key ipvsutil.Key, want ledger.Server) {
	if want.DrainTimeout != nil {
		r.timeouts[key] = want.DrainTimeout
	} else {
		delete(r.timeouts, key)
	}
}

// lower returns the operations that drain and delete.
func (r *Reconciler) lower(touched map[ipvsutil.Key]struct{}) []ipvsutil.Op {
	var ops []ipvsutil.Op
	var keys []ipvsutil.Key
	for key := range touched {
		if r.mayHaveToGo(key) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, ipvsutil.Key.Compare)
	for _, key := range keys {
		want, wanted := r.wantServer(key)
		have := r.seen.servers[key]
		switch {
		case !wanted:
			ops = append(ops, ipvsutil.Op{Verb: ipvsutil.DeleteVirtualServer, Server: have})
		case has(r.failed.Servers, key) && !r.serves(want):
			// Those that should take over did not come: the old ones stay meanwhile.
		default:
			ops = r.lowerReals(ops, want)
		}
	}
	return ops
}

// mayHaveToGo tells a server that is there and not wanted, or has a real server that is
// not. At the start of a node that is none of them.
func (r *Reconciler) mayHaveToGo(key ipvsutil.Key) bool {
	want, wanted := r.wantServer(key)
	if _, there := r.seen.servers[key]; !there || !wanted {
		return there
	}
	for addr := range r.seen.reals[key] {
		if _, wanted := slices.BinarySearchFunc(want.RealServers, addr, compareReal); !wanted {
			return true
		}
	}
	return false
}

// serves tells whether the kernel has one at least of the wanted real servers.
func (r *Reconciler) serves(want ledger.Server) bool {
	return slices.ContainsFunc(want.RealServers, func(real ipvsutil.RealServer) bool {
		return r.seen.reals[want.Key][real.Addr] == real.Weight && real.Weight != 0
	})
}

func (r *Reconciler) lowerReals(ops []ipvsutil.Op, want ledger.Server) []ipvsutil.Op {
	key := want.Key
	have := r.seen.reals[key]
	var left []netip.AddrPort
	for addr := range have {
		if _, wanted := slices.BinarySearchFunc(want.RealServers, addr, compareReal); !wanted {
			left = append(left, addr)
		}
	}
	slices.SortFunc(left, netip.AddrPort.Compare)
	for _, addr := range left {
		op := ipvsutil.Op{
			Verb: ipvsutil.DeleteRealServer, Server: want.VirtualServer,
			Real: ipvsutil.RealServer{Addr: addr},
		}
		if r.mayDrain(want, addr) {
			e := r.drains.add(key, addr, r.config.DrainCheck)
			if have[addr] == 0 && e.kept {
				continue
			}
			op.Verb, op.Real.Drained = ipvsutil.UpdateRealServer, ipvsutil.DrainedAt(e.since)
		}
		ops = append(ops, op)
	}
	return ops
}

func compareReal(real ipvsutil.RealServer, addr netip.AddrPort) int { return real.Addr.Compare(addr) }

// mayDrain: a real server that left keeps its connections at weight 0 and takes no
// new ones. UDP and SCTP flows never end by themselves, so that they keep only one
// that still serves; the others are deleted at once, and the flows to them.
func (r *Reconciler) mayDrain(want ledger.Server, addr netip.AddrPort) bool {
	if r.drainTimeout(want.DrainTimeout) == 0 {
		return false
	}
	if want.Protocol == ipvsutil.TCP {
		return true
	}
	_, serves := slices.BinarySearchFunc(want.Serving, addr, netip.AddrPort.Compare)
	return serves
}

// troubled ranges over the servers that failed, in this round or before, or are in
// doubt: they may be other than wanted.
func (r *Reconciler) troubled() iter.Seq[ipvsutil.Key] {
	return func(yield func(ipvsutil.Key) bool) {
		for key := range r.failed.Servers {
			if !yield(key) {
				return
			}
		}
		for key := range r.failing.servers {
			if !yield(key) {
				return
			}
		}
		for key := range r.waiting.Servers {
			if !yield(key) {
				return
			}
		}
	}
}

// do performs ops and updates the picture by those that succeeded.
func (r *Reconciler) do(ctx context.Context, report *Report, ops []ipvsutil.Op) {
	if len(ops) == 0 {
		return
	}
	errs := r.doors.IPVS.Do(ctx, ops)
	succeeded := streak{report: report}
	lost := map[ipvsutil.Key]bool{} // virtual servers that could not be created
	for i, op := range ops {
		var err error
		if errs != nil {
			err = errs[i]
		}
		key := op.Server.Key
		if lost[key] {
			continue
		}
		if isDelete(op.Verb) && errors.Is(err, fs.ErrNotExist) {
			// Gone already, which somebody else has done, and maybe more.
			r.doubts.server(key, true)
			err = nil
		}
		if err == nil {
			succeeded.add(operationOf(op))
			r.done(op)
			continue
		}
		what := operationOf(op)
		report.count(what.Kind, what.Verb, err)
		lost[key] = op.Verb == ipvsutil.CreateVirtualServer
		r.failed.Servers = set(r.failed.Servers, key)
		if outside, doubtful := doubt(err); doubtful {
			r.doubts.server(key, outside)
		}
	}
	succeeded.end()
}

func isDelete(v ipvsutil.Verb) bool {
	return v == ipvsutil.DeleteVirtualServer || v == ipvsutil.DeleteRealServer
}

// done records in the picture what the kernel has done.
func (r *Reconciler) done(op ipvsutil.Op) {
	key := op.Server.Key
	r.refresh.follow(op)
	switch op.Verb {
	case ipvsutil.CreateVirtualServer:
		r.seen.servers[key] = op.Server
		if r.settled && key.Mark == 0 {
			// Flows that began before lead past the server.
			r.leftFlows(key, ipvsutil.RealServer{})
		}
	case ipvsutil.UpdateVirtualServer:
		r.seen.servers[key] = op.Server
	case ipvsutil.DeleteVirtualServer:
		r.leftFlows(key, ipvsutil.RealServer{})
		r.forgetServer(key)
	case ipvsutil.CreateRealServer, ipvsutil.UpdateRealServer:
		r.seen.putReal(key, op.Real)
		if op.Real.Drained != 0 {
			r.drains.keep(key, op.Real.Addr, op.Real.Drained, r.config.DrainCheck)
		}
	case ipvsutil.DeleteRealServer:
		r.leftFlows(key, op.Real)
		delete(r.seen.reals[key], op.Real.Addr)
		r.drains.remove(key, op.Real.Addr)
	}
}

// forgetServer drops all that is known of a server that is gone.
func (r *Reconciler) forgetServer(key ipvsutil.Key) {
	r.seen.dropServer(key)
	delete(r.drains, key)
	delete(r.timeouts, key)
}

func sortedKeys[V any](keys map[ipvsutil.Key]V) []ipvsutil.Key {
	return slices.SortedFunc(maps.Keys(keys), ipvsutil.Key.Compare)
}
