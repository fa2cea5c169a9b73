package reconcile

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
)

// memberOrder is the order in which entries are added; they are deleted in the
// reverse order. A source range comes before the entry that drops all others, a
// refusal or drop before what lets traffic in, the exception from masquerading
// before the rule, and what brings packets here comes last.
var memberOrder = [][]ipsetutil.Kind{
	{ipsetutil.LoopBack, ipsetutil.IPVSIPs, ipsetutil.NodeIP},
	{ipsetutil.LoadBalancerSourceIP, ipsetutil.LoadBalancerSourceCIDR},
	{ipsetutil.LoadBalancerFW, ipsetutil.DropAll, ipsetutil.DropOutside, ipsetutil.Refuse},
	{ipsetutil.ExternalIPLocal},
	exceptions,
	{
		ipsetutil.ClusterIP, ipsetutil.ExternalIP, ipsetutil.LoadBalancer, ipsetutil.NodePortTCP,
		ipsetutil.NodePortUDP, ipsetutil.NodePortSCTP, ipsetutil.HealthCheckNodePort,
	},
	{ipsetutil.ShortCircuit},
	{ipsetutil.Capture},
}

// exceptions are the sets whose entries keep the client's source address. Where a
// frontend is in use, no real server on another node may serve it meanwhile: its
// answers would not come back this way. So they are added only after such real
// servers left, and deleted before they come.
var exceptions = []ipsetutil.Kind{
	ipsetutil.LoadBalancerLocal, ipsetutil.NodePortLocalTCP,
	ipsetutil.NodePortLocalUDP, ipsetutil.NodePortLocalSCTP,
}

// memberRank is memberOrder by the set's name.
var memberRank = rankMembers()

func rankMembers() map[string]int {
	ranks := map[string]int{}
	for rank, kinds := range memberOrder {
		for _, kind := range kinds {
			ranks[kind.Name(false)], ranks[kind.Name(true)] = rank, rank
		}
	}
	return ranks
}

// exceptionRank is that of all exceptions.
var exceptionRank = memberRank[exceptions[0].Name(false)]

// isException tells entries of exceptions.
func isException(m ipsetutil.Member) bool { return memberRank[m.Set] == exceptionRank }

// onlyExceptions picks them out.
func onlyExceptions(members map[ipsetutil.Member]struct{}) map[ipsetutil.Member]struct{} {
	var picked map[ipsetutil.Member]struct{}
	for m := range members {
		if isException(m) {
			picked = set(picked, m)
		}
	}
	return picked
}

// addMembers adds what is wanted and missing, or has another mark, where pick agrees.
func (r *Reconciler) addMembers(ctx context.Context, report *Report, touched map[ipsetutil.Member]struct{}, pick func(ipsetutil.Member) bool) {
	var changes []ipsetutil.Change
	if !r.settled { // they are all missing, mostly
		changes = make([]ipsetutil.Change, 0, len(touched))
	}
	for m := range touched {
		mark, wanted := r.wantMember(m)
		have, there := r.seen.member(m)
		if wanted && (!there || have != mark) && !has(r.failed.Members, m) && pick(m) {
			changes = append(changes, ipsetutil.Change{Member: m, Mark: mark})
		}
	}
	r.change(ctx, report, changes)
}

// deleteEarly deletes, before any real server comes, what must not be there with
// it: exceptions, and entries that bear the mark of a server that only lingers and
// would refuse new connections.
func (r *Reconciler) deleteEarly(ctx context.Context, report *Report, touched map[ipsetutil.Member]struct{}) {
	r.deleteMembers(ctx, report, touched, func(m ipsetutil.Member) bool {
		if isException(m) {
			return true
		}
		mark, there := r.seen.member(m)
		if !there || mark == 0 || m.Entry.Protocol == journalProtocol {
			return false
		}
		key := ipvsutil.MarkKey(mark, m.Entry.Addr.Is6())
		_, lingers := r.lingers.servers[key]
		return lingers && isMember(&r.seen, markEntry(key))
	})
}

// deleteLate deletes what is left to delete, but keeps the entries of servers that
// could not be deleted: by them the servers are known as ours. So does the entry of
// an address that is still bound.
func (r *Reconciler) deleteLate(ctx context.Context, report *Report, touched map[ipsetutil.Member]struct{}) {
	stay := newFrontends()
	for key := range r.troubled() {
		if _, wanted := r.wantServer(key); !wanted && hasServer(&r.seen, key) {
			stay.addServer(key, r.seen.bearers[key])
		}
	}
	bound := [2]string{ipsetutil.IPVSIPs.Name(false), ipsetutil.IPVSIPs.Name(true)}
	r.deleteMembers(ctx, report, touched, func(m ipsetutil.Member) bool {
		if _, leaving := r.leaving[m.Entry.Addr]; leaving && slices.Contains(bound[:], m.Set) {
			return false // it goes when the address does
		}
		if stay.hasMember(m) || slices.Contains(bound[:], m.Set) && has(r.seen.bound, m.Entry.Addr) {
			r.waiting.Members = set(r.waiting.Members, m)
			return false
		}
		return true
	})
}

// deleteMembers deletes what is there and not wanted, where pick agrees.
func (r *Reconciler) deleteMembers(ctx context.Context, report *Report, touched map[ipsetutil.Member]struct{}, pick func(ipsetutil.Member) bool) {
	var changes []ipsetutil.Change
	for m := range touched {
		if _, wanted := r.wantMember(m); !wanted && isMember(&r.seen, m) && !has(r.failed.Members, m) && pick(m) {
			changes = append(changes, ipsetutil.Change{Delete: true, Member: m})
		}
	}
	r.change(ctx, report, changes)
}

// change does the changes, all additions or all deletions, in memberOrder and set
// by set, so that the door can send them together.
func (r *Reconciler) change(ctx context.Context, report *Report, changes []ipsetutil.Change) {
	if len(changes) == 0 {
		return
	}
	changes = inOrder(changes)
	if !changes[0].Delete {
		r.grow(ctx, report, changes)
	}
	errs := r.doors.Sets.Do(ctx, changes)
	succeeded := streak{report: report}
	for i, c := range changes {
		var err error
		if errs != nil {
			err = errs[i]
		}
		if c.Delete && errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ipsetutil.ErrNoSet) {
			r.doubts.set(c.Member.Set, true)
			err = nil
		}
		verb := "create"
		if c.Delete {
			verb = "delete"
		}
		if err == nil {
			succeeded.add(Operation{"member", verb})
		}
		switch {
		case err != nil:
			report.count("member", verb, err)
			r.failed.Members = set(r.failed.Members, c.Member)
			if outside, doubtful := doubt(err); doubtful {
				r.doubts.set(c.Member.Set, outside)
			}
		case c.Delete:
			r.seen.dropMember(c.Member)
		default:
			r.seen.putMember(c.Member, c.Mark)
		}
	}
	succeeded.end()
}

// inOrder sorts changes by memberOrder, then by set and entry. Deletions have the
// reverse order of sets.
func inOrder(changes []ipsetutil.Change) []ipsetutil.Change {
	counts := map[string]int{}
	for i := range changes {
		counts[changes[i].Member.Set]++
	}
	bySet := make(map[string][]ipsetutil.Change, len(counts))
	for set, n := range counts {
		bySet[set] = make([]ipsetutil.Change, 0, n)
	}
	for _, c := range changes {
		bySet[c.Member.Set] = append(bySet[c.Member.Set], c)
	}
	sets := slices.SortedFunc(maps.Keys(bySet), func(a, b string) int {
		order := cmp.Compare(memberRank[a], memberRank[b])
		if changes[0].Delete {
			order = -order
		}
		return cmp.Or(order, strings.Compare(a, b))
	})
	sorted := changes[:0]
	for _, set := range sets {
		sorted = appendSorted(sorted, bySet[set])
	}
	return sorted
}

// place is where an entry stands in its set, as far as its address and port tell: many
// are sorted by that several times faster than as they are.
type place struct {
	high, low uint64
	port      uint16
	at        int
}

func (p *place) compare(o *place) int {
	switch {
	case p.high != o.high:
		return cmp.Compare(p.high, o.high)
	case p.low != o.low:
		return cmp.Compare(p.low, o.low)
	}
	return cmp.Compare(p.port, o.port)
}

// appendSorted appends changes of one set in the order of their entries.
func appendSorted(sorted, of []ipsetutil.Change) []ipsetutil.Change {
	places := make([]place, len(of))
	for i := range of {
		e := &of[i].Member.Entry
		places[i] = place{port: e.Port, at: i}
		if e.Addr.IsValid() {
			b := e.Addr.As16()
			places[i].high, places[i].low = binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		if c := a.compare(&b); c != 0 {
			return c
		}
		return of[a.at].Member.Entry.Compare(of[b.at].Member.Entry)
	})
	for _, p := range places {
		sorted = append(sorted, of[p.at])
	}
	return sorted
}

// frontends are keys of address servers, ports of NodePorts, whose entries have no
// address, and addresses, whose entries have no port.
type frontends struct {
	keys  map[ipvsutil.Key]bool
	ports map[uint16]bool
	addrs map[netip.Addr]bool
}

func newFrontends() frontends {
	return frontends{keys: map[ipvsutil.Key]bool{}, ports: map[uint16]bool{}, addrs: map[netip.Addr]bool{}}
}

func (f frontends) hasKey(key ipvsutil.Key) bool {
	return f.keys[key] || f.ports[key.Addr.Port()] || f.addrs[key.Addr.Addr()]
}

func (f frontends) hasMember(m ipsetutil.Member) bool {
	if !m.Entry.Addr.IsValid() {
		return f.ports[m.Entry.Port]
	}
	return f.keys[memberKey(m.Entry)]
}

func (f frontends) addMember(m ipsetutil.Member) {
	switch {
	case !m.Entry.Addr.IsValid():
		f.ports[m.Entry.Port] = true
	case m.Entry.Protocol == 0:
		f.addrs[m.Entry.Addr] = true
	default:
		f.keys[memberKey(m.Entry)] = true
	}
}

// addServer adds a server by all entries that may be its own.
func (f frontends) addServer(key ipvsutil.Key, bearers map[ipsetutil.Entry]struct{}) {
	if key.Mark == 0 {
		f.keys[key] = true
		f.ports[key.Addr.Port()] = true
	}
	for e := range bearers {
		f.keys[memberKey(e)] = true
	}
}

func memberKey(e ipsetutil.Entry) ipvsutil.Key {
	return ipvsutil.Key{Addr: netip.AddrPortFrom(e.Addr, e.Port), Protocol: ipvsutil.Protocol(e.Protocol)}
}

// held are the frontends with an entry that is wanted and could not be added: their
// servers must not be created, or traffic would pass unmasqueraded or unfiltered.
func (r *Reconciler) held() frontends {
	held := newFrontends()
	add := func(m ipsetutil.Member) {
		if _, wanted := r.wantMember(m); wanted && !isMember(&r.seen, m) && !isHairpin(m) {
			held.addMember(m)
		}
	}
	for m := range r.failing.members {
		add(m)
	}
	for m := range r.failed.Members {
		add(m)
	}
	for m := range r.waiting.Members {
		add(m)
	}
	return held
}

// isHairpin tells entries that name endpoints, not frontends.
func isHairpin(m ipsetutil.Member) bool {
	return m.Set == ipsetutil.LoopBack.Name(false) || m.Set == ipsetutil.LoopBack.Name(true)
}

// there tells which frontends of touched servers the kernel has.
func (r *Reconciler) there(touched ledger.Touched) frontends {
	there := newFrontends()
	for key := range touched.Servers {
		if _, ok := r.seen.servers[key]; ok {
			there.addServer(key, nil)
		}
	}
	return there
}

func set[K comparable](keys map[K]struct{}, key K) map[K]struct{} {
	if keys == nil {
		keys = map[K]struct{}{}
	}
	keys[key] = struct{}{}
	return keys
}
