package netlink

import (
	"encoding/binary"
	"fmt"
	"math"

	"golang.org/x/sys/unix"
)

// Bits of an attribute's type. Nest sets Nested by itself; NetByteOrder is or-ed to
// the type where a protocol wants it (ipset does, IPVS does not).
const (
	Nested       = unix.NLA_F_NESTED
	NetByteOrder = unix.NLA_F_NET_BYTEORDER
)

// attributeHeader is the size of struct nlattr.
const attributeHeader = unix.SizeofNlAttr

// Attributes is a buffer to which attributes are appended, each padded to four
// bytes. A fixed header (genlmsghdr, ifinfomsg) may stand before them if its length
// is a multiple of four. An attribute beyond 65,535 bytes is a fault of the
// program and panics; see Len for staying below.
type Attributes []byte

// U8 appends an attribute of one byte.
func (a *Attributes) U8(kind uint16, v uint8) {
	a.header(kind, 1)
	*a = append(*a, v, 0, 0, 0)
}

// U16 appends an attribute of two bytes in the byte order of this machine.
func (a *Attributes) U16(kind uint16, v uint16) {
	a.header(kind, 2)
	*a = append(binary.NativeEndian.AppendUint16(*a, v), 0, 0)
}

// U16BE appends an attribute of two bytes in network byte order.
func (a *Attributes) U16BE(kind uint16, v uint16) {
	a.header(kind, 2)
	*a = append(binary.BigEndian.AppendUint16(*a, v), 0, 0)
}

// U32 appends an attribute of four bytes in the byte order of this machine.
func (a *Attributes) U32(kind uint16, v uint32) {
	a.header(kind, 4)
	*a = binary.NativeEndian.AppendUint32(*a, v)
}

// U32BE appends an attribute of four bytes in network byte order.
func (a *Attributes) U32BE(kind uint16, v uint32) {
	a.header(kind, 4)
	*a = binary.BigEndian.AppendUint32(*a, v)
}

// U64 appends an attribute of eight bytes in the byte order of this machine.
func (a *Attributes) U64(kind uint16, v uint64) {
	a.header(kind, 8)
	*a = binary.NativeEndian.AppendUint64(*a, v)
}

// U64BE appends an attribute of eight bytes in network byte order.
func (a *Attributes) U64BE(kind uint16, v uint64) {
	a.header(kind, 8)
	*a = binary.BigEndian.AppendUint64(*a, v)
}

// String appends an attribute that holds v and a zero byte.
func (a *Attributes) String(kind uint16, v string) {
	a.header(kind, len(v)+1)
	*a = pad(append(append(*a, v...), 0))
}

// Bytes appends an attribute that holds v.
func (a *Attributes) Bytes(kind uint16, v []byte) {
	a.header(kind, len(v))
	*a = pad(append(*a, v...))
}

// Flag appends an attribute without data.
func (a *Attributes) Flag(kind uint16) { a.header(kind, 0) }

// Nest begins an attribute that holds those appended until End is called with the
// returned mark. Nests may be nested.
func (a *Attributes) Nest(kind uint16) (mark int) {
	mark = len(*a)
	a.header(kind|Nested, 0)
	return mark
}

// End closes the nest that began at mark.
func (a *Attributes) End(mark int) {
	binary.NativeEndian.PutUint16((*a)[mark:], attributeLength(a.Len(mark)-attributeHeader))
}

// Len is the length so far, header included, of the nest that began at mark. It
// must be at most 65,535 when End is called.
func (a *Attributes) Len(mark int) int { return len(*a) - mark }

// header appends the header of an attribute with size bytes of data.
func (a *Attributes) header(kind uint16, size int) {
	*a = binary.NativeEndian.AppendUint16(*a, attributeLength(size))
	*a = binary.NativeEndian.AppendUint16(*a, kind)
}

// attributeLength is the length field of an attribute with size bytes of data.
func attributeLength(size int) uint16 {
	if size > math.MaxUint16-attributeHeader {
		panic(fmt.Sprintf("netlink attribute of %d bytes", size))
	}
	return uint16(size + attributeHeader)
}
