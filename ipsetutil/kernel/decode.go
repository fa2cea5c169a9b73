package kernel

import (
	"errors"
	"fmt"
	"net/netip"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// errForeignType: an entry of a set type that is not in use here.
var errForeignType = errors.New("entry of a foreign set type")

// attributes returns what follows the fixed header of a message.
func attributes(body []byte) ([]byte, error) {
	if len(body) < headerSize {
		return nil, netlink.ErrTruncated
	}
	return body[headerSize:], nil
}

// find returns the first attribute of a kind in a message.
func find(body []byte, kind uint16) (netlink.Attribute, error) {
	b, err := attributes(body)
	if err != nil {
		return netlink.Attribute{}, err
	}
	for a, err := range netlink.Parse(b) {
		if err != nil {
			return netlink.Attribute{}, err
		}
		if a.Type == kind {
			return a, nil
		}
	}
	return netlink.Attribute{}, fmt.Errorf("reply without attribute %d", kind)
}

// decodeRange reads two numbers, the lowest and the highest that the kernel takes.
func decodeRange(body []byte, lowest, highest uint16) (low, high uint8, err error) {
	a, err := find(body, lowest)
	if err != nil {
		return 0, 0, err
	}
	if low, err = a.U8(); err != nil {
		return 0, 0, err
	}
	if a, err = find(body, highest); err != nil {
		return 0, 0, err
	}
	high, err = a.U8()
	return low, high, err
}

// failedLine reads which entry failed from the echo of a request; zero when it
// was the request as a whole.
func failedLine(echo []byte) uint32 {
	a, err := find(echo, attrLine)
	if err != nil {
		return 0
	}
	line, _ := a.U32()
	return line
}

// decodeMembers reads the entries of one part of a list into members.
func decodeMembers(body []byte, members map[ipsetutil.Entry]uint32) error {
	b, err := attributes(body)
	if err != nil {
		return err
	}
	for a, err := range netlink.Parse(b) {
		if err != nil {
			return err
		}
		if a.Type != attrADT {
			continue
		}
		for entry, err := range netlink.Parse(a.Data) {
			if err != nil {
				return err
			}
			e, mark, err := decodeEntry(entry.Data)
			if err != nil {
				return err
			}
			members[e] = mark
		}
	}
	return nil
}

// partial is an entry while it is read.
type partial struct {
	entry   ipsetutil.Entry
	source  netip.Addr
	length  int // of the source; -1 until it is read
	mark    uint32
	strange bool
}

// decodeEntry reads one entry and its mark, which is ipsetutil.StrangeMark where
// the entry has what is never written here.
func decodeEntry(b []byte) (ipsetutil.Entry, uint32, error) {
	p := partial{length: -1}
	for a, err := range netlink.Parse(b) {
		if err == nil {
			err = p.read(a)
		}
		if err != nil {
			return ipsetutil.Entry{}, 0, err
		}
	}
	if p.source.IsValid() {
		if p.length < 0 {
			p.length = p.source.BitLen()
		}
		source, err := p.source.Prefix(p.length)
		if err != nil {
			return ipsetutil.Entry{}, 0, err
		}
		p.entry.Source = source
	}
	if p.strange {
		p.mark = ipsetutil.StrangeMark
	}
	return p.entry, p.mark, nil
}

// read takes in one attribute. Those that are no part of the key, such as
// counters, timeout or comment, are passed over.
func (p *partial) read(a netlink.Attribute) (err error) {
	switch a.Type {
	case dataIP:
		p.entry.Addr, err = decodeAddress(a.Data)
	case dataPort:
		p.entry.Port, err = a.U16BE()
	case dataProtocol:
		p.entry.Protocol, err = a.U8()
	case dataIP2:
		p.source, err = decodeAddress(a.Data)
	case dataCIDR2:
		var n uint8
		n, err = a.U8()
		p.length = int(n)
	case dataFlags:
		var flags uint32
		flags, err = a.U32BE()
		p.strange = p.strange || flags&flagNoMatch != 0
	case dataSKBMark:
		var v uint64
		v, err = a.U64BE()
		p.mark = uint32(v >> 32)
		p.strange = p.strange || uint32(v) != wholeMark
	case dataIPTo, dataCIDR, dataPortTo, dataMark, dataEther, dataName, dataIP2To, dataIface:
		err = fmt.Errorf("%w: attribute %d", errForeignType, a.Type)
	}
	return err
}

func decodeAddress(b []byte) (netip.Addr, error) {
	for a, err := range netlink.Parse(b) {
		switch {
		case err != nil:
			return netip.Addr{}, err
		case a.Type == addressIPv4 && len(a.Data) == 4:
			return netip.AddrFrom4([4]byte(a.Data)), nil
		case a.Type == addressIPv6 && len(a.Data) == 16:
			return netip.AddrFrom16([16]byte(a.Data)), nil
		}
	}
	return netip.Addr{}, fmt.Errorf("address: %w", netlink.ErrTruncated)
}
