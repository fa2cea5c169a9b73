package reconcile

import (
	"net/netip"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
)

// picture is what the kernel has, as far as it is desired or ours: the same types
// as desired. Every successful operation updates it, every reading corrects it.
type picture struct {
	// members holds the entries of each set that exists, with their marks.
	members map[string]map[ipsetutil.Entry]uint32
	// sizes holds the most members that each hash set can have.
	sizes   map[string]uint32
	servers map[ipvsutil.Key]ipvsutil.VirtualServer
	// reals holds the weights of real servers. One that somebody gave what we never
	// do has strangeWeight, so that it differs from every wanted one.
	reals           map[ipvsutil.Key]map[netip.AddrPort]uint32
	bound, captured map[netip.Addr]struct{}
	// bearers are the entries that bear a firewall mark, by the server of that mark.
	bearers map[ipvsutil.Key]map[ipsetutil.Entry]struct{}
}

// strangeWeight is no weight that is ever wanted.
const strangeWeight = ^uint32(0)

func newPicture() picture {
	return picture{
		members: map[string]map[ipsetutil.Entry]uint32{}, sizes: map[string]uint32{},
		servers: map[ipvsutil.Key]ipvsutil.VirtualServer{},
		reals:   map[ipvsutil.Key]map[netip.AddrPort]uint32{},
		bound:   map[netip.Addr]struct{}{}, captured: map[netip.Addr]struct{}{},
		bearers: map[ipvsutil.Key]map[ipsetutil.Entry]struct{}{},
	}
}

// expect makes room in a picture of an empty kernel for what it is about to get.
func (p *picture) expect(all ledger.Touched) {
	if len(p.servers) > 0 || len(p.bound) > 0 {
		return
	}
	p.servers = make(map[ipvsutil.Key]ipvsutil.VirtualServer, len(all.Servers))
	p.reals = make(map[ipvsutil.Key]map[netip.AddrPort]uint32, len(all.Servers))
	p.bound = make(map[netip.Addr]struct{}, len(all.Bound))
}

func (p *picture) member(m ipsetutil.Member) (mark uint32, ok bool) {
	mark, ok = p.members[m.Set][m.Entry]
	return mark, ok
}

func (p *picture) setSize(s ipsetutil.Set) {
	if s.MaxElem > 0 {
		p.sizes[s.Name] = s.MaxElem
	}
}

func (p *picture) putMember(m ipsetutil.Member, mark uint32) {
	entries := p.members[m.Set]
	if entries == nil {
		entries = map[ipsetutil.Entry]uint32{}
		p.members[m.Set] = entries
	}
	if bearsMark(m) { // the mark before had another server
		p.dropMember(m)
	}
	entries[m.Entry] = mark
	if mark == 0 {
		return
	}
	key := ipvsutil.MarkKey(mark, m.Entry.Addr.Is6())
	if p.bearers[key] == nil {
		p.bearers[key] = map[ipsetutil.Entry]struct{}{}
	}
	p.bearers[key][m.Entry] = struct{}{}
}

func (p *picture) dropMember(m ipsetutil.Member) {
	mark, ok := p.member(m)
	if !ok {
		return
	}
	delete(p.members[m.Set], m.Entry)
	if mark == 0 {
		return
	}
	key := ipvsutil.MarkKey(mark, m.Entry.Addr.Is6())
	delete(p.bearers[key], m.Entry)
	if len(p.bearers[key]) == 0 {
		delete(p.bearers, key)
	}
}

func (p *picture) putReal(key ipvsutil.Key, real ipvsutil.RealServer) {
	reals := p.reals[key]
	if reals == nil {
		reals = map[netip.AddrPort]uint32{}
		p.reals[key] = reals
	}
	reals[real.Addr] = real.Weight
	if real.Foreign {
		reals[real.Addr] = strangeWeight
	}
}

func (p *picture) dropServer(key ipvsutil.Key) {
	delete(p.servers, key)
	delete(p.reals, key)
}

// protocol of the traffic through a server: a mark server has that of the entries
// that bear its mark. One that only its journal entry names lingers, which only TCP
// does.
func (p *picture) protocol(key ipvsutil.Key) ipvsutil.Protocol {
	if key.Mark == 0 {
		return key.Protocol
	}
	for e := range p.bearers[key] {
		if e.Protocol != journalProtocol {
			return ipvsutil.Protocol(e.Protocol)
		}
	}
	return ipvsutil.TCP
}
