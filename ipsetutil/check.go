package ipsetutil

import (
	"fmt"
	"net/netip"
)

// StrangeMark is the mark under which Members lists an entry that carries what the
// proxy never writes: the nomatch flag, or a mark with a mask that leaves bits out.
// No wanted member has it, so such an entry always differs from a wanted one; adding
// the wanted one replaces it.
const StrangeMark = ^uint32(0)

// Validate returns nil or an ErrInvalid: the name has 1 to 31 characters, the type
// is known, a hash set has a family and a maxelem, a bitmap has neither.
func (s Set) Validate() error {
	if s.Name == "" || len(s.Name) > maxNameLen {
		return fmt.Errorf("%w: name of %d characters, the kernel takes 1 to %d", ErrInvalid, len(s.Name), maxNameLen)
	}
	switch s.Type {
	case BitmapPort:
		if s.Family != FamilyNone || s.MaxElem != 0 {
			return fmt.Errorf("%w: a %s has no family and no maxelem", ErrInvalid, s.Type)
		}
	case HashIP, HashIPPort, HashIPPortIP, HashIPPortNet:
		if s.Family != IPv4 && s.Family != IPv6 {
			return fmt.Errorf("%w: a %s needs a family", ErrInvalid, s.Type)
		}
		if s.MaxElem == 0 {
			return fmt.Errorf("%w: a %s needs a maxelem", ErrInvalid, s.Type)
		}
	default:
		return fmt.Errorf("%w: unknown set type %q", ErrInvalid, s.Type)
	}
	return nil
}

// Check returns nil, or an ErrInvalid that says why the change can't be one of a
// set of this type and family. Deletes are judged by shape alone, so that whatever
// Members has listed can be deleted.
func (s Set) Check(c Change) error {
	e := c.Member.Entry
	if err := s.checkShape(e); err != nil {
		return err
	}
	if c.Delete {
		return nil
	}
	switch {
	case s.Type != BitmapPort && e.Addr.IsUnspecified():
		// hash:ip never takes it, hash:ip,port only in old kernels.
		return fmt.Errorf("%w: the unspecified address is no destination", ErrInvalid)
	case !s.Marks && c.Mark != 0:
		return fmt.Errorf("%w: the set has no marks", ErrInvalid)
	case c.Mark == StrangeMark:
		return fmt.Errorf("%w: mark %#x is reserved", ErrInvalid, c.Mark)
	}
	return nil
}

// checkShape says whether exactly the fields of the set's type are there.
func (s Set) checkShape(e Entry) error {
	switch s.Type {
	case BitmapPort:
		if e != (Entry{Port: e.Port}) {
			return fmt.Errorf("%w: a %s holds ports alone", ErrInvalid, s.Type)
		}
		return nil
	case HashIP:
		if e != (Entry{Addr: e.Addr}) {
			return fmt.Errorf("%w: a %s holds addresses alone", ErrInvalid, s.Type)
		}
		return s.checkFamily(e.Addr)
	case HashIPPort, HashIPPortIP, HashIPPortNet:
	default:
		return fmt.Errorf("%w: unknown set type %q", ErrInvalid, s.Type)
	}
	if err := s.checkFamily(e.Addr); err != nil {
		return err
	}
	if e.Protocol == 0 {
		return fmt.Errorf("%w: a %s needs a protocol", ErrInvalid, s.Type)
	}
	if e.Port != 0 && !hasPorts(s.Family, e.Protocol) {
		return fmt.Errorf("%w: protocol %d has no ports", ErrInvalid, e.Protocol)
	}
	return s.checkSource(e.Source)
}

func (s Set) checkFamily(a netip.Addr) error {
	right := a.Is4()
	if s.Family == IPv6 {
		right = a.Is6() && a.Zone() == ""
	}
	if !right {
		return fmt.Errorf("%w: %v is not of family %s", ErrInvalid, a, s.Family)
	}
	return nil
}

func (s Set) checkSource(p netip.Prefix) error {
	if s.Type == HashIPPort {
		if p != (netip.Prefix{}) {
			return fmt.Errorf("%w: a %s has no third part", ErrInvalid, s.Type)
		}
		return nil
	}
	if !p.IsValid() {
		return fmt.Errorf("%w: a %s needs a third part", ErrInvalid, s.Type)
	}
	if err := s.checkFamily(p.Addr()); err != nil {
		return err
	}
	switch {
	case s.Type == HashIPPortIP && !p.IsSingleIP():
		return fmt.Errorf("%w: %v is not one address, as a %s needs", ErrInvalid, p, s.Type)
	case p.Bits() == 0:
		return fmt.Errorf("%w: a %s can't hold %v, two prefixes of length 1 cover the same", ErrInvalid, s.Type, p)
	case p != p.Masked():
		return fmt.Errorf("%w: %v has bits outside of its length", ErrInvalid, p)
	}
	return nil
}

// hasPorts names the protocols whose port the kernel keeps (ip_set_proto_with_ports
// in net/netfilter/ipset/ip_set_getport.c; of ICMP it is type and code). For all
// others it stores zero.
func hasPorts(f Family, protocol uint8) bool {
	switch protocol {
	case 6, 17, 132, 136: // TCP, UDP, SCTP, UDP-Lite
		return true
	case 1:
		return f == IPv4
	case 58:
		return f == IPv6
	}
	return false
}
