package reconcile

import (
	"context"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
)

// shield refuses new connections to frontends whose server is wanted and could not be
// created, and ends that for those that came. Without it their address, which other
// frontends need, would lead to the host's own ports.
func (r *Reconciler) shield(ctx context.Context, report *Report, work *ledger.Touched) {
	refusals := map[ipsetutil.Member]struct{}{}
	for key := range work.Servers {
		if key.Mark != 0 {
			continue
		}
		switch {
		case r.missing(key):
			r.shielded[key] = true
			refusals[plan.MemberOf(ipsetutil.Refuse, key)] = struct{}{}
		case r.shielded[key]:
			delete(r.shielded, key)
			work.Members = set(work.Members, plan.MemberOf(ipsetutil.Refuse, key))
		}
	}
	r.addMembers(ctx, report, refusals, func(ipsetutil.Member) bool { return true })
}

// missing tells a server that is wanted and is not there.
func (r *Reconciler) missing(key ipvsutil.Key) bool {
	if hasServer(&r.seen, key) {
		return false
	}
	_, wanted := r.wantServer(key)
	return wanted
}

// isShielded tells a frontend whose new connections are refused for want of a server.
func (r *Reconciler) isShielded(key ipvsutil.Key) bool {
	return r.shielded[key] && isMember(&r.seen, plan.MemberOf(ipsetutil.Refuse, key))
}

// shields tells the entry of a frontend that is shielded.
func (r *Reconciler) shields(m ipsetutil.Member) bool {
	if len(r.shielded) == 0 || memberRank[m.Set] != memberRank[ipsetutil.Refuse.Name(false)] {
		return false
	}
	key := memberKey(m.Entry)
	return r.shielded[key] && m == plan.MemberOf(ipsetutil.Refuse, key)
}
