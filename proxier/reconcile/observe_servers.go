package reconcile

import (
	"context"
	"net/netip"
	"slices"

	"kube-ipvs-proxy/ipvsutil"
)

// listServers lists the virtual servers. The kernel does not say when somebody changes
// servers under the dump, and then leaves some out. So a list that lacks one that
// should be there is made again, and the first list of a process too: what is in
// either of them exists. A server that lingers is asked for by itself, since nothing
// would bring it back.
func (r *Reconciler) listServers(ctx context.Context, report *Report) (map[ipvsutil.Key]ipvsutil.VirtualServer, bool) {
	found := map[ipvsutil.Key]ipvsutil.VirtualServer{}
	for range 2 {
		list, err := r.doors.IPVS.VirtualServers(ctx)
		report.count("virtual_server", "list", err)
		if err != nil {
			return nil, false
		}
		for _, s := range list {
			found[s.Key] = s
		}
		if r.known && r.complete(found) {
			break
		}
	}
	for key := range r.lingers.servers {
		if _, there := found[key]; there {
			continue
		}
		states, err := r.doors.IPVS.RealServers(ctx, key)
		report.count("real_server", "list", err)
		if have, seen := r.seen.servers[key]; seen && (err != nil || len(states) > 0) {
			found[key] = have
		}
	}
	return found, true
}

// complete tells whether nothing is missing that the picture has.
func (r *Reconciler) complete(found map[ipvsutil.Key]ipvsutil.VirtualServer) bool {
	for key := range r.seen.servers {
		if _, there := found[key]; !there {
			return false
		}
	}
	return true
}

// readServers lists the virtual servers, and the real ones of all or those named;
// others than ours and desired ones do not exist for us. Each takes a request of its
// own for its real servers. It reports whether the list was read.
func (r *Reconciler) readServers(ctx context.Context, report *Report, all bool, named map[ipvsutil.Key]bool) bool {
	found, ok := r.listServers(ctx, report)
	if !ok {
		r.refresh.counted = -1
		return false
	}
	r.refresh.listed(found)
	var unread []ipvsutil.Key
	for key, s := range found {
		have, known := r.seen.servers[key]
		outside, doubted := named[key] // a server that was ours a moment ago still is
		if _, claimed := r.claimed(key); !known && !claimed && !doubted && !r.seen.owns(key) {
			continue
		}
		outside = outside || !doubted
		if !known || have != s {
			r.seen.servers[key] = s
			r.serverDiffers(key, outside)
		}
		if all || doubted || !known {
			unread = append(unread, key)
		}
	}
	slices.SortFunc(unread, ipvsutil.Key.Compare)
	for _, key := range unread {
		outside, doubted := named[key]
		r.readReals(ctx, report, key, outside || !doubted)
	}
	for key := range r.seen.servers {
		if _, there := found[key]; !there {
			outside, doubted := named[key]
			r.forgetServer(key)
			r.serverDiffers(key, outside || !doubted)
		}
	}
	return true
}

func (r *Reconciler) serverDiffers(key ipvsutil.Key, outside bool) {
	r.pending.Servers = set(r.pending.Servers, key)
	if outside && r.known {
		r.damaged.Servers = set(r.damaged.Servers, key)
	}
}

func (r *Reconciler) realsDiffer(key ipvsutil.Key, outside bool) {
	r.pending.Servers = set(r.pending.Servers, key)
	if outside && r.known {
		r.damaged.reals = set(r.damaged.reals, key)
	}
}

// readReals corrects the picture of one server's real servers. Of a server that is
// gone by now the list is empty, which the next listing of servers tells.
func (r *Reconciler) readReals(ctx context.Context, report *Report, key ipvsutil.Key, outside bool) {
	states, err := r.doors.IPVS.RealServers(ctx, key)
	report.count("real_server", "list", err)
	if err != nil {
		r.doubts.server(key, outside)
		return
	}
	have := r.seen.reals[key]
	now := make(map[netip.AddrPort]uint32, len(states))
	differs := false
	for _, s := range states {
		weight := s.Weight
		if s.Foreign {
			weight = strangeWeight
		}
		now[s.Addr] = weight
		if s.Drained != 0 && !s.Foreign {
			r.drains.keep(key, s.Addr, s.Drained, r.config.DrainCheck)
		}
		old, known := have[s.Addr]
		differs = differs || !known || old != weight
	}
	for addr := range have {
		if _, there := now[addr]; !there {
			differs = true
			r.drains.remove(key, addr)
		}
	}
	if differs {
		r.seen.reals[key] = now
		r.realsDiffer(key, outside)
	}
}
