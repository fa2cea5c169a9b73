package kernel

import (
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// decodeHeader reads the header of a set out of a part of a list. Later parts of
// a big set have the name alone.
func decodeHeader(body []byte) (h ipsetutil.Header, err error) {
	b, err := attributes(body)
	if err != nil {
		return h, err
	}
	for a, err := range netlink.Parse(b) {
		if err != nil {
			return h, err
		}
		switch a.Type {
		case attrSetName:
			h.Set.Name = a.String()
		case attrTypeName:
			h.Set.Type = ipsetutil.Type(a.String())
		case attrFamily:
			n, err := a.U8()
			if err != nil {
				return h, err
			}
			h.Set.Family = decodeFamily(n)
		case attrData:
			if err := readData(&h, a.Data); err != nil {
				return h, err
			}
		}
	}
	return h, nil
}

func decodeFamily(n uint8) ipsetutil.Family {
	switch n {
	case unix.NFPROTO_IPV4:
		return ipsetutil.IPv4
	case unix.NFPROTO_IPV6:
		return ipsetutil.IPv6
	}
	return ipsetutil.FamilyNone
}

// strangeFlags are those of sets that are never made here: counters, comments, an
// order to throw entries out of a full set.
const strangeFlags = flagCounters | flagComment | flagForceAdd

// readData reads the parameters.
func readData(h *ipsetutil.Header, b []byte) error {
	for a, err := range netlink.Parse(b) {
		if err != nil {
			return err
		}
		switch a.Type {
		case dataHashSize:
			h.HashSize, err = a.U32BE()
		case dataMaxElem:
			h.Set.MaxElem, err = a.U32BE()
		case dataEntries:
			h.Entries, err = a.U32BE()
		case dataReferences:
			h.References, err = a.U32BE()
		case dataFlags:
			var flags uint32
			flags, err = a.U32BE()
			h.Set.Marks = flags&flagSKBInfo != 0
			h.Strange = h.Strange || flags&strangeFlags != 0
		case dataPort, dataPortTo:
			err = readPort(h, a)
		case dataTimeout, dataNetmask, dataMarkMask, dataBitmask:
			h.Strange = true
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readPort reads a border of a bitmap's ports.
func readPort(h *ipsetutil.Header, a netlink.Attribute) error {
	port, err := a.U16BE()
	whole := uint16(0)
	if a.Type == dataPortTo {
		whole = 65535
	}
	h.Strange = h.Strange || port != whole
	return err
}
