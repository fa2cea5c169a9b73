package reconcile

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"slices"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
)

// changes are the operations of one direction, virtual and real servers apart.
type changes struct {
	virtual, real []ipvsutil.Op
	flows         []ipvsutil.StaleFlow
}

// compareServers turns the difference between desired and observed servers into
// operations: up creates and restores, down drains and deletes.
func (r *Reconciler) compareServers(touched map[ipvsutil.Key]struct{}, held frontends) (up, down changes) {
	for _, key := range slices.SortedFunc(maps.Keys(touched), ipvsutil.Key.Compare) {
		want, wanted := r.desired.Server(key)
		have, there := r.observed.servers[key]
		switch {
		case !wanted && there:
			down.flows = append(down.flows, r.allFlows(key)...)
			down.virtual = append(down.virtual, ipvsutil.Op{Verb: ipvsutil.DeleteVirtualServer, Server: have})
		case !wanted:
		case !there && held.hasKey(key):
			r.failed.Servers = set(r.failed.Servers, key)
		default:
			if !there {
				up.virtual = append(up.virtual, ipvsutil.Op{Verb: ipvsutil.CreateVirtualServer, Server: want.VirtualServer})
			} else if have != want.VirtualServer {
				up.virtual = append(up.virtual, ipvsutil.Op{Verb: ipvsutil.UpdateVirtualServer, Server: want.VirtualServer})
			}
			r.compareReals(want, &up, &down)
		}
	}
	return up, down
}

// compareReals adds the operations of one server's real servers. One that left is
// drained: weight 0 keeps its connections and takes no new ones. One that comes
// back while it drains gets its weight again. UDP has no connections to keep: it
// is deleted at once, and flows to it with it.
func (r *Reconciler) compareReals(want ledger.Server, up, down *changes) {
	key := want.Key
	have := r.observed.reals[key]
	wanted := make(map[netip.AddrPort]bool, len(want.RealServers))
	for _, real := range want.RealServers {
		wanted[real.Addr] = true
		weight, there := have[real.Addr]
		r.drains.remove(key, real.Addr)
		if there && weight == real.Weight {
			continue
		}
		verb := ipvsutil.CreateRealServer
		if there {
			verb = ipvsutil.UpdateRealServer
		}
		up.real = append(up.real, ipvsutil.Op{Verb: verb, Server: want.VirtualServer, Real: real})
	}
	if want.Protocol == ipvsutil.UDP && key.Mark != 0 {
		r.frontends[key] = want.Frontends
	}
	for addr, weight := range have {
		if !wanted[addr] {
			r.leave(want, addr, weight, down)
		}
	}
}

// leave drains or deletes one real server of a server that stays.
func (r *Reconciler) leave(want ledger.Server, addr netip.AddrPort, weight uint32, down *changes) {
	key := want.Key
	op := ipvsutil.Op{
		Verb: ipvsutil.DeleteRealServer, Server: want.VirtualServer,
		Real: ipvsutil.RealServer{Addr: addr},
	}
	if want.Protocol == ipvsutil.TCP && r.config.DrainTimeout != 0 {
		r.drains.add(key, addr, r.config)
		if weight == 0 {
			return
		}
		op.Verb = ipvsutil.UpdateRealServer
	}
	down.real = append(down.real, op)
	if want.Protocol != ipvsutil.UDP {
		return
	}
	if key.Mark == 0 {
		down.flows = append(down.flows, ipvsutil.StaleFlow{Frontend: key, Real: addr})
	}
	for _, frontend := range want.Frontends {
		down.flows = append(down.flows, ipvsutil.StaleFlow{Frontend: frontend, Real: addr})
	}
}

// allFlows are all UDP flows through a server that goes.
func (r *Reconciler) allFlows(key ipvsutil.Key) []ipvsutil.StaleFlow {
	if key.Protocol == ipvsutil.UDP {
		return []ipvsutil.StaleFlow{{Frontend: key}}
	}
	var flows []ipvsutil.StaleFlow
	for _, frontend := range r.frontends[key] {
		for addr := range r.observed.reals[key] {
			flows = append(flows, ipvsutil.StaleFlow{Frontend: frontend, Real: addr})
		}
	}
	return flows
}

// do performs ops, updates the picture by those that succeeded and returns the
// keys of the others, which stay pending.
func (r *Reconciler) do(ctx context.Context, report *Report, ops []ipvsutil.Op) map[ipvsutil.Key]bool {
	if len(ops) == 0 {
		return nil
	}
	report.Ops += len(ops)
	errs := r.doors.IPVS.Do(ctx, ops)
	failed := map[ipvsutil.Key]bool{}
	for i, op := range ops {
		var err error
		if errs != nil {
			err = errs[i]
		}
		if isDelete(op.Verb) && errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		if err != nil {
			report.fail(err)
			r.fail(err)
			failed[op.Server.Key] = true
			r.failed.Servers = set(r.failed.Servers, op.Server.Key)
			continue
		}
		r.done(op)
	}
	return failed
}

func isDelete(v ipvsutil.Verb) bool {
	return v == ipvsutil.DeleteVirtualServer || v == ipvsutil.DeleteRealServer
}

// done records in the picture what the kernel has done.
func (r *Reconciler) done(op ipvsutil.Op) {
	key := op.Server.Key
	switch op.Verb {
	case ipvsutil.CreateVirtualServer, ipvsutil.UpdateVirtualServer:
		r.observed.servers[key] = op.Server
	case ipvsutil.DeleteVirtualServer:
		delete(r.observed.servers, key)
		delete(r.observed.reals, key)
		delete(r.drains, key)
		delete(r.frontends, key)
	case ipvsutil.CreateRealServer, ipvsutil.UpdateRealServer:
		if r.observed.reals[key] == nil {
			r.observed.reals[key] = map[netip.AddrPort]uint32{}
		}
		r.observed.reals[key][op.Real.Addr] = op.Real.Weight
	case ipvsutil.DeleteRealServer:
		delete(r.observed.reals[key], op.Real.Addr)
		r.drains.remove(key, op.Real.Addr)
	}
}

// without leaves out the operations on servers that are missing.
func without(ops []ipvsutil.Op, missing map[ipvsutil.Key]bool) []ipvsutil.Op {
	if len(missing) == 0 {
		return ops
	}
	return slices.DeleteFunc(ops, func(op ipvsutil.Op) bool { return missing[op.Server.Key] })
}
