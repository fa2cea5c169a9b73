package reconcile

import (
	"net/netip"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
)

// Ownership tells which virtual servers of the kernel are ours, for commands that
// judge or clean a node without an agent. It is the rule that the reconciler goes by.
type Ownership struct{ seen picture }

// NewOwnership takes what the kernel has: the members of our sets by the set's name
// (sets that are not ours count for nothing), the bound and the captured addresses.
func NewOwnership(members map[string]map[ipsetutil.Entry]uint32, bound, captured []netip.Addr) Ownership {
	o := Ownership{seen: newPicture()}
	for _, set := range ipsetutil.All() {
		for entry, mark := range members[set.Name] {
			o.seen.putMember(ipsetutil.Member{Set: set.Name, Entry: entry}, mark)
		}
	}
	for _, a := range bound {
		o.seen.bound[a] = struct{}{}
	}
	for _, a := range captured {
		o.seen.captured[a] = struct{}{}
	}
	return o
}

// Owns tells whether the server is ours; every other one is foreign.
func (o Ownership) Owns(key ipvsutil.Key) bool { return o.seen.owns(key) }
