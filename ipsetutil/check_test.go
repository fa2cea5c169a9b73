package ipsetutil

import (
	"errors"
	"io/fs"
	"net/netip"
	"testing"
)

func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func hash(t Type, f Family) Set { return Set{Name: "S", Type: t, Family: f, MaxElem: 8} }

func TestValidateTakesAllOwnSets(t *testing.T) {
	for _, s := range All() {
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		if got, ok := ByName(s.Name); !ok || got != s {
			t.Errorf("ByName(%s) = %v, %v", s.Name, got, ok)
		}
	}
	if s, ok := ByName("STRANGER"); ok {
		t.Errorf("ByName of a foreign name gave %v", s)
	}
}

func TestValidateRefuses(t *testing.T) {
	for name, s := range map[string]Set{
		"no name":          {Type: BitmapPort},
		"long name":        {Name: "12345678901234567890123456789012", Type: BitmapPort},
		"no type":          {Name: "S"},
		"unknown type":     {Name: "S", Type: "list:set"},
		"bitmap, family":   {Name: "S", Type: BitmapPort, Family: IPv4},
		"bitmap, maxelem":  {Name: "S", Type: BitmapPort, MaxElem: 1},
		"hash, no family":  {Name: "S", Type: HashIP, MaxElem: 1},
		"hash, odd family": {Name: "S", Type: HashIP, Family: 3, MaxElem: 1},
		"hash, no maxelem": {Name: "S", Type: HashIP, Family: IPv4},
	} {
		if err := s.Validate(); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestCheck(t *testing.T) {
	a, b := addr("10.0.0.1"), addr("fd00::1")
	port := Entry{Addr: a, Protocol: 6, Port: 80}
	with := func(e Entry, p netip.Prefix) Entry { e.Source = p; return e }
	unmasked := netip.PrefixFrom(addr("10.0.0.1"), 8)
	for _, c := range []struct {
		name  string
		set   Set
		entry Entry
		ok    bool
	}{
		{"bitmap", Set{Name: "S", Type: BitmapPort}, Entry{Port: 80}, true},
		{"bitmap zero", Set{Name: "S", Type: BitmapPort}, Entry{}, true},
		{"bitmap protocol", Set{Name: "S", Type: BitmapPort}, Entry{Port: 80, Protocol: 6}, false},
		{"bitmap address", Set{Name: "S", Type: BitmapPort}, Entry{Port: 80, Addr: a}, false},
		{"foreign type", hash("list:set", IPv4), Entry{Addr: a}, false},
		{"ip", hash(HashIP, IPv4), Entry{Addr: a}, true},
		{"ip none", hash(HashIP, IPv4), Entry{}, false},
		{"ip other family", hash(HashIP, IPv4), Entry{Addr: b}, false},
		{"ip6", hash(HashIP, IPv6), Entry{Addr: b}, true},
		{"ip6 other family", hash(HashIP, IPv6), Entry{Addr: a}, false},
		{"ip6 zone", hash(HashIP, IPv6), Entry{Addr: addr("fe80::1%eth0")}, false},
		{"ip with port", hash(HashIP, IPv4), port, false},
		{"port", hash(HashIPPort, IPv4), port, true},
		{"port without protocol", hash(HashIPPort, IPv4), Entry{Addr: a, Port: 80}, false},
		{"port of GRE", hash(HashIPPort, IPv4), Entry{Addr: a, Protocol: 47, Port: 80}, false},
		{"GRE", hash(HashIPPort, IPv4), Entry{Addr: a, Protocol: 47}, true},
		{"ICMP type", hash(HashIPPort, IPv4), Entry{Addr: a, Protocol: 1, Port: 8}, true},
		{"ICMPv6 type in IPv4", hash(HashIPPort, IPv4), Entry{Addr: a, Protocol: 58, Port: 8}, false},
		{"port with source", hash(HashIPPort, IPv4), with(port, prefix("10.0.0.0/8")), false},
		{"port,ip", hash(HashIPPortIP, IPv4), with(port, prefix("10.0.0.1/32")), true},
		{"port,ip none", hash(HashIPPortIP, IPv4), port, false},
		{"port,ip net", hash(HashIPPortIP, IPv4), with(port, prefix("10.0.0.0/31")), false},
		{"port,ip other family", hash(HashIPPortIP, IPv4), with(port, prefix("fd00::1/128")), false},
		{"port,net", hash(HashIPPortNet, IPv4), with(port, prefix("10.0.0.0/8")), true},
		{"port,net host", hash(HashIPPortNet, IPv4), with(port, prefix("10.0.0.1/32")), true},
		{"port,net none", hash(HashIPPortNet, IPv4), port, false},
		{"port,net all", hash(HashIPPortNet, IPv4), with(port, prefix("0.0.0.0/0")), false},
		{"port,net unmasked", hash(HashIPPortNet, IPv4), with(port, unmasked), false},
		{"port,net other family", hash(HashIPPortNet, IPv4), with(port, prefix("fd00::/64")), false},
	} {
		for _, del := range []bool{false, true} {
			err := c.set.Check(Change{Delete: del, Member: Member{"S", c.entry}})
			if c.ok != (err == nil) || err != nil && !errors.Is(err, ErrInvalid) {
				t.Errorf("%s, delete %v: %v, want ok %v", c.name, del, err, c.ok)
			}
		}
	}
}

// What a stranger wrote can be deleted, though it can't be added.
func TestCheckOfDeletesIsLooser(t *testing.T) {
	marked := Set{Name: "S", Type: HashIPPort, Family: IPv4, MaxElem: 8, Marks: true}
	plain := marked
	plain.Marks = false
	e := Entry{Addr: addr("10.0.0.1"), Protocol: 6, Port: 80}
	for name, c := range map[string]struct {
		set   Set
		entry Entry
		mark  uint32
	}{
		"unspecified":    {plain, Entry{Addr: addr("0.0.0.0"), Protocol: 6, Port: 80}, 0},
		"mark":           {plain, e, 1},
		"strange mark":   {marked, e, StrangeMark},
		"strange mark 2": {plain, e, StrangeMark},
	} {
		if err := c.set.Check(Change{Member: Member{"S", c.entry}, Mark: c.mark}); !errors.Is(err, ErrInvalid) {
			t.Errorf("add, %s: %v, want ErrInvalid", name, err)
		}
		if err := c.set.Check(Change{Delete: true, Member: Member{"S", c.entry}, Mark: c.mark}); err != nil {
			t.Errorf("delete, %s: %v", name, err)
		}
	}
	if err := marked.Check(Change{Member: Member{"S", e}, Mark: 7}); err != nil {
		t.Errorf("add with mark: %v", err)
	}
}

func TestErrorsAreOfTheirKind(t *testing.T) {
	for _, err := range []error{ErrNoSet, ErrNoEntry} {
		wrapped := &OpError{Op: "delete", Object: "S 80", Err: err}
		if !errors.Is(wrapped, fs.ErrNotExist) || !errors.Is(wrapped, err) || errors.Is(wrapped, fs.ErrExist) {
			t.Errorf("%v: wrong kind", wrapped)
		}
	}
	if errors.Is(ErrNoSet, ErrNoEntry) {
		t.Error("a missing set is taken for a missing entry")
	}
}
