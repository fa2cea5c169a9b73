package ledger

import (
	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/plan"
)

// markOwner names one short circuit: a port of a Service in one family.
type markOwner struct {
	service plan.ServiceName
	port    plan.PortKey
}

// marks gives each short circuit an index in the firewall mark; IPv4 and IPv6 have
// numbers of their own. Index zero is never given.
type marks struct {
	// base are bits that every mark has, so that no foreign mark is taken for ours.
	base     uint32
	bits     uint8
	given    map[markOwner]uint32
	lacking  map[markOwner]bool // no mark was free
	families [2]numbers
}

type numbers struct {
	used map[uint32]bool
	next uint32
	// adopted are marks that the kernel has already, by the entry that bears them:
	// kept for their frontends until the first plan is complete.
	adopted  map[ipsetutil.Entry]uint32
	reserved map[uint32]bool
}

func newMarks(base uint32, bits uint8) *marks {
	m := &marks{base: base, bits: bits, given: map[markOwner]uint32{}, lacking: map[markOwner]bool{}}
	for i := range m.families {
		m.families[i] = numbers{
			used: map[uint32]bool{}, next: 1,
			adopted: map[ipsetutil.Entry]uint32{}, reserved: map[uint32]bool{},
		}
	}
	return m
}

func (m *marks) family(ipv6 bool) *numbers {
	if ipv6 {
		return &m.families[1]
	}
	return &m.families[0]
}

// of returns the mark of a short circuit, or zero when it has none.
func (m *marks) of(owner markOwner) uint32 { return m.given[owner] }

// assign gives a mark to a short circuit that has none: the one that the kernel
// has for one of its frontends, so that a restart changes nothing, or a free one.
// When all are taken it has none, and its frontends serve local endpoints only.
func (m *marks) assign(owner markOwner, frontends []ipvsutil.Key) {
	if m.given[owner] != 0 || m.bits == 0 {
		return
	}
	m.lacking[owner] = true
	n := m.family(owner.port.IPv6)
	for _, key := range frontends {
		entry := plan.MemberOf(ipsetutil.ShortCircuit, key).Entry
		if mark := n.adopted[entry]; mark != 0 && !n.used[mark] {
			m.give(owner, n, mark)
			return
		}
	}
	if !m.hasFree(owner.port.IPv6) {
		return
	}
	limit := uint32(1) << m.bits
	for range limit {
		mark := m.base | n.next
		if n.next++; n.next >= limit {
			n.next = 1
		}
		if !n.used[mark] && !n.reserved[mark] {
			m.give(owner, n, mark)
			return
		}
	}
}

// hasFree reports whether a mark of the family is not in use.
func (m *marks) hasFree(ipv6 bool) bool {
	return m.bits != 0 && len(m.family(ipv6).used) < 1<<m.bits-1
}

func (m *marks) give(owner markOwner, n *numbers, mark uint32) {
	m.given[owner] = mark
	n.used[mark] = true
	delete(m.lacking, owner)
}

// free takes a mark back and returns it, or zero when there was none.
func (m *marks) free(owner markOwner) uint32 {
	delete(m.lacking, owner)
	mark := m.given[owner]
	if mark != 0 {
		delete(m.given, owner)
		delete(m.family(owner.port.IPv6).used, mark)
	}
	return mark
}

// valid tells a mark that this layout could have given.
func (m *marks) valid(mark uint32) bool {
	index := mark &^ m.base
	return mark&m.base == m.base && index != 0 && index < 1<<m.bits
}

// AdoptMarks tells the ledger which marks the kernel has, by entry of the
// short-circuit set of one family. Call it before the first Replace.
func (l *Ledger) AdoptMarks(ipv6 bool, entries map[ipsetutil.Entry]uint32) {
	n := l.marks.family(ipv6)
	for e, mark := range entries {
		if l.marks.valid(mark) {
			n.adopted[e] = mark
			n.reserved[mark] = true
		}
	}
}

// ForgetAdopted ends the reservation of adopted marks, once every Service was planned.
func (l *Ledger) ForgetAdopted() {
	for i := range l.marks.families {
		n := &l.marks.families[i]
		n.adopted, n.reserved = map[ipsetutil.Entry]uint32{}, map[uint32]bool{}
	}
}
