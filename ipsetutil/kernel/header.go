package kernel

import (
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// Header is what the kernel says of a set without listing it.
type Header struct {
	// Set is as it was created; of a foreign set Type may be any text.
	Set      ipsetutil.Set
	HashSize uint32 // now; zero for bitmaps
	// Entries is the number of members; zero where the kernel is older than 4.9.
	Entries    uint32
	References uint32 // rules and sets that refer to it
}

// decodeHeader reads the header of a set out of a part of a list. Later parts of
// a big set have the name alone.
func decodeHeader(body []byte) (h Header, err error) {
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
			if err := h.readData(a.Data); err != nil {
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

// readData reads the parameters.
func (h *Header) readData(b []byte) error {
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
		}
		if err != nil {
			return err
		}
	}
	return nil
}
