package netlink

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
)

// goldenAttributes is a buffer with one attribute of each kind.
func goldenAttributes() Attributes {
	var a Attributes
	a.U8(1, 0x11)
	a.U16(2, 0x2233)
	a.U16BE(3|NetByteOrder, 0x2233)
	a.U32(4, 0x44556677)
	a.U32BE(5, 0x44556677)
	a.U64(6, 0x0102030405060708)
	a.String(7, "rr")
	a.Bytes(8, []byte{1, 2, 3, 4, 5})
	mark := a.Nest(9)
	a.Flag(10)
	a.U64BE(11, 0x0102030405060708)
	a.End(mark)
	return a
}

func TestEncodeGolden(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Fatal("the golden bytes are those of a little-endian machine")
	}
	want := []byte{
		5, 0, 1, 0, 0x11, 0, 0, 0,
		6, 0, 2, 0, 0x33, 0x22, 0, 0,
		6, 0, 3, 0x40, 0x22, 0x33, 0, 0,
		8, 0, 4, 0, 0x77, 0x66, 0x55, 0x44,
		8, 0, 5, 0, 0x44, 0x55, 0x66, 0x77,
		12, 0, 6, 0, 8, 7, 6, 5, 4, 3, 2, 1,
		7, 0, 7, 0, 'r', 'r', 0, 0,
		9, 0, 8, 0, 1, 2, 3, 4, 5, 0, 0, 0,
		20, 0, 9, 0x80,
		4, 0, 10, 0,
		12, 0, 11, 0, 1, 2, 3, 4, 5, 6, 7, 8,
	}
	if got := goldenAttributes(); !bytes.Equal(got, want) {
		t.Errorf("got  % x\nwant % x", []byte(got), want)
	}
}

func TestRoundTrip(t *testing.T) {
	type value struct {
		kind  uint16
		order bool
		value any
	}
	var got []value
	var read func(b []byte)
	read = func(b []byte) {
		for a, err := range Parse(b) {
			if err != nil {
				t.Fatal(err)
			}
			v := value{kind: a.Type, order: a.NetByteOrder}
			switch a.Type {
			case 1:
				v.value, err = a.U8()
			case 2:
				v.value, err = a.U16()
			case 3:
				v.value, err = a.U16BE()
			case 4:
				v.value, err = a.U32()
			case 5:
				v.value, err = a.U32BE()
			case 6:
				v.value, err = a.U64()
			case 7:
				v.value = a.String()
			case 8:
				v.value = string(a.Data)
			case 9:
				read(a.Data)
			case 10:
				v.value = len(a.Data)
			case 11:
				v.value, err = a.U64BE()
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, v)
		}
	}
	read(goldenAttributes())
	want := []value{
		{1, false, uint8(0x11)}, {2, false, uint16(0x2233)}, {3, true, uint16(0x2233)},
		{4, false, uint32(0x44556677)}, {5, false, uint32(0x44556677)},
		{6, false, uint64(0x0102030405060708)}, {7, false, "rr"}, {8, false, "\x01\x02\x03\x04\x05"},
		{10, false, 0}, {11, false, uint64(0x0102030405060708)}, {9, false, nil},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestParseTruncated(t *testing.T) {
	for _, b := range [][]byte{{1}, {4, 0, 1}, {0, 0, 1, 0}, {3, 0, 1, 0}, {9, 0, 1, 0, 1, 2, 3, 4}, {4, 0, 1, 0, 7}} {
		var last error
		for _, last = range Parse(b) {
		}
		if !errors.Is(last, ErrTruncated) {
			t.Errorf("% x: %v", b, last)
		}
	}
	// The padding of the last attribute may be missing.
	for a, err := range Parse([]byte{5, 0, 1, 0, 7}) {
		if v, short := a.U8(); err != nil || short != nil || v != 7 {
			t.Errorf("%v %v", a, err)
		}
	}
}

func TestShortValues(t *testing.T) {
	a := Attribute{Type: 4}
	reads := map[string]func() error{
		"U8":    func() error { _, err := a.U8(); return err },
		"U16":   func() error { _, err := a.U16(); return err },
		"U16BE": func() error { _, err := a.U16BE(); return err },
		"U32":   func() error { _, err := a.U32(); return err },
		"U32BE": func() error { _, err := a.U32BE(); return err },
		"U64":   func() error { _, err := a.U64(); return err },
		"U64BE": func() error { _, err := a.U64BE(); return err },
	}
	for name, read := range reads {
		if err := read(); !errors.Is(err, ErrTruncated) || !strings.Contains(err.Error(), "attribute 4") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTooLongAttributePanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	var a Attributes
	mark := a.Nest(1)
	a.Bytes(2, make([]byte, 40000))
	a.Bytes(2, make([]byte, 40000))
	a.End(mark)
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(goldenAttributes()))
	f.Add([]byte{255, 255, 1, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		total := 0
		for a, err := range Parse(b) {
			if err != nil {
				break
			}
			total += attributeHeader + len(a.Data)
			_, _ = a.U8()
			_, _ = a.U16()
			_, _ = a.U32BE()
			_, _ = a.U64()
			_ = a.String()
		}
		if total > len(b) {
			t.Errorf("%d bytes out of %d", total, len(b))
		}
	})
}

func FuzzMessages(f *testing.F) {
	f.Add(appendMessage(nil, Request{Type: 2, Body: []byte{0, 0, 0, 0}}, 0, 1))
	f.Fuzz(func(_ *testing.T, b []byte) {
		for m, err := range messages(b) {
			if err == nil {
				_ = answer(m)
			}
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	var a Attributes
	b.ReportAllocs()
	for b.Loop() {
		a = a[:0]
		mark := a.Nest(1)
		a.U16(1, 2)
		a.U32(2, 3)
		a.String(3, "rr")
		a.End(mark)
	}
}
