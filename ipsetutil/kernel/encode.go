package kernel

import (
	"net/netip"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// hashSize is the initial number of buckets, as kube-proxy's; the kernel doubles
// it as the set fills.
const hashSize = 1024

// buckets is the initial number of buckets of a set. One that is bigger than
// kube-proxy's is about to be filled: it begins with what it will need, so that the
// kernel does not have to make its table anew again and again meanwhile.
func buckets(maxElem uint32) uint32 {
	if maxElem <= 65536 {
		return hashSize
	}
	return maxElem / 8
}

// wholeMark is the mask of a mark that replaces all bits.
const wholeMark = 0xffffffff

// appendCommand begins a message: the fixed header, the version, and the name of
// the set unless it is empty.
func appendCommand(a netlink.Attributes, set string) netlink.Attributes {
	a = append(a, unix.AF_INET, unix.NFNETLINK_V0, 0, 0)
	a.U8(attrProtocol, protocolVersion)
	if set != "" {
		a.String(attrSetName, set)
	}
	return a
}

// family returns the number of a family; bitmaps have none.
func family(f ipsetutil.Family) uint8 {
	switch f {
	case ipsetutil.IPv4:
		return unix.NFPROTO_IPV4
	case ipsetutil.IPv6:
		return unix.NFPROTO_IPV6
	}
	return unix.NFPROTO_UNSPEC
}

func encodeType(typ ipsetutil.Type, f ipsetutil.Family) []byte {
	a := appendCommand(nil, "")
	a.String(attrTypeName, string(typ))
	a.U8(attrFamily, family(f))
	return a
}

func encodeCreate(s ipsetutil.Set, revision uint8) []byte {
	a := appendCommand(nil, s.Name)
	a.String(attrTypeName, string(s.Type))
	a.U8(attrRevision, revision)
	a.U8(attrFamily, family(s.Family))
	data := a.Nest(attrData)
	if s.Type == ipsetutil.BitmapPort {
		a.U16BE(dataPort|ordered, 0)
		a.U16BE(dataPortTo|ordered, 65535)
	} else {
		a.U32BE(dataHashSize|ordered, buckets(s.MaxElem))
		a.U32BE(dataMaxElem|ordered, s.MaxElem)
	}
	if s.Marks {
		a.U32BE(dataFlags|ordered, flagSKBInfo)
	}
	a.End(data)
	return a
}

// encodeList asks for one set, or for all when the name is empty. Flags are zero
// for everything, or say what to leave out.
func encodeList(set string, flags uint32) []byte {
	a := appendCommand(nil, set)
	if flags != 0 {
		a.U32BE(attrFlags|ordered, flags)
	}
	return a
}

func encodeSwap(a, b string) []byte {
	body := appendCommand(nil, a)
	body.String(attrSetName2, b)
	return body
}

// appendEntry appends one entry of a set. Line is what the kernel gives back when
// this entry fails; zero leaves it out.
func appendEntry(a netlink.Attributes, s ipsetutil.Set, c ipsetutil.Change, line uint32) netlink.Attributes {
	e := c.Member.Entry
	data := a.Nest(attrData)
	if e.Addr.IsValid() {
		appendAddress(&a, dataIP, e.Addr)
	}
	if s.Type != ipsetutil.HashIP {
		a.U16BE(dataPort|ordered, e.Port)
	}
	if e.Protocol != 0 {
		a.U8(dataProtocol, e.Protocol) // a bitmap refuses it
	}
	if e.Source.IsValid() {
		appendAddress(&a, dataIP2, e.Source.Addr())
		if s.Type == ipsetutil.HashIPPortNet {
			a.U8(dataCIDR2, uint8(e.Source.Bits()))
		}
	}
	if s.Marks && !c.Delete {
		a.U64BE(dataSKBMark|ordered, uint64(c.Mark)<<32|wholeMark)
	}
	if line != 0 {
		a.U32(dataLine, line)
	}
	a.End(data)
	return a
}

func appendAddress(a *netlink.Attributes, kind uint16, addr netip.Addr) {
	nest := a.Nest(kind)
	if addr.Is4() {
		b := addr.As4()
		a.Bytes(addressIPv4|ordered, b[:])
	} else {
		b := addr.As16()
		a.Bytes(addressIPv6|ordered, b[:])
	}
	a.End(nest)
}
