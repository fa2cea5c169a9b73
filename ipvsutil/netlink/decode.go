package netlink

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"iter"
)

// attributeKind masks the flag bits out of an attribute's type.
const attributeKind = ^uint16(Nested | NetByteOrder)

// Attribute is one attribute of a reply. Data aliases the reply.
type Attribute struct {
	Type         uint16 // without the flag bits
	NetByteOrder bool
	Data         []byte
}

// Parse yields the attributes of b, which begins after the fixed header of a
// message or is the Data of a nested attribute. An attribute that is shorter than
// its header or longer than b gives ErrTruncated and ends the iteration.
func Parse(b []byte) iter.Seq2[Attribute, error] {
	return func(yield func(Attribute, error) bool) {
		for len(b) > 0 {
			if len(b) < attributeHeader {
				yield(Attribute{}, ErrTruncated)
				return
			}
			n := int(binary.NativeEndian.Uint16(b))
			kind := binary.NativeEndian.Uint16(b[2:])
			if n < attributeHeader || n > len(b) {
				yield(Attribute{}, ErrTruncated)
				return
			}
			a := Attribute{
				Type:         kind & attributeKind,
				NetByteOrder: kind&NetByteOrder != 0,
				Data:         b[attributeHeader:n],
			}
			if !yield(a, nil) {
				return
			}
			b = b[min(len(b), (n+3)&^3):]
		}
	}
}

// U8 reads one byte.
func (a Attribute) U8() (uint8, error) {
	if len(a.Data) < 1 {
		return 0, a.short()
	}
	return a.Data[0], nil
}

// U16 reads two bytes in the byte order of this machine.
func (a Attribute) U16() (uint16, error) {
	if len(a.Data) < 2 {
		return 0, a.short()
	}
	return binary.NativeEndian.Uint16(a.Data), nil
}

// U16BE reads two bytes in network byte order.
func (a Attribute) U16BE() (uint16, error) {
	if len(a.Data) < 2 {
		return 0, a.short()
	}
	return binary.BigEndian.Uint16(a.Data), nil
}

// U32 reads four bytes in the byte order of this machine.
func (a Attribute) U32() (uint32, error) {
	if len(a.Data) < 4 {
		return 0, a.short()
	}
	return binary.NativeEndian.Uint32(a.Data), nil
}

// U32BE reads four bytes in network byte order.
func (a Attribute) U32BE() (uint32, error) {
	if len(a.Data) < 4 {
		return 0, a.short()
	}
	return binary.BigEndian.Uint32(a.Data), nil
}

// U64 reads eight bytes in the byte order of this machine.
func (a Attribute) U64() (uint64, error) {
	if len(a.Data) < 8 {
		return 0, a.short()
	}
	return binary.NativeEndian.Uint64(a.Data), nil
}

// U64BE reads eight bytes in network byte order.
func (a Attribute) U64BE() (uint64, error) {
	if len(a.Data) < 8 {
		return 0, a.short()
	}
	return binary.BigEndian.Uint64(a.Data), nil
}

// String reads text up to the first zero byte, or all when there is none.
func (a Attribute) String() string {
	text, _, _ := bytes.Cut(a.Data, []byte{0})
	return string(text)
}

func (a Attribute) short() error {
	return fmt.Errorf("attribute %d of %d bytes: %w", a.Type, len(a.Data), ErrTruncated)
}
