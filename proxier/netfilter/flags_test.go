package netfilter

import (
	"net/netip"
	"testing"
)

// podNetwork returns the flags of a dual-stack cluster that knows its pods' ranges.
func podNetwork() Flags {
	f := DefaultFlags()
	f.Detector = Detector{
		Mode: DetectCIDR,
		IPv4: netip.MustParsePrefix("10.244.0.0/16"),
		IPv6: netip.MustParsePrefix("fd00:10:244::/48"),
	}
	return f
}

func TestMarksShareNoBit(t *testing.T) {
	for bit := range 32 {
		m, err := NewMarks(bit)
		if err != nil {
			t.Fatal(err)
		}
		if m.Masquerade != 1<<bit {
			t.Errorf("bit %d: masquerade mark %#x", bit, m.Masquerade)
		}
		if sum := uint64(m.Masquerade) + uint64(m.Capture) + uint64(m.Index) + uint64(m.Foreign); sum != 1<<32-1 {
			t.Errorf("bit %d: %#x: the parts do not make up all 32 bits", bit, m)
		}
		if m.Masquerade|m.Capture|m.Index|m.Foreign != 1<<32-1 {
			t.Errorf("bit %d: %#x: parts share a bit", bit, m)
		}
		if m.Capture == 0 || m.Index&(m.Index+1) != 0 {
			t.Errorf("bit %d: %#x: no capture bit, or the index does not begin at bit 0", bit, m)
		}
	}
	want := Marks{Masquerade: 0x4000, Capture: 0x8000, Index: 0x3fff, Foreign: 0xffff0000}
	if got, err := NewMarks(DefaultMasqueradeBit); err != nil || got != want {
		t.Errorf("default: %#x, %v, want %#x", got, err, want)
	}
	for _, bit := range []int{-1, 32} {
		if _, err := NewMarks(bit); err == nil {
			t.Errorf("bit %d: want an error", bit)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*Flags){
		"no family":         func(f *Flags) { f.IPv4, f.IPv6 = false, false },
		"back end":          func(f *Flags) { f.Backend = "nftables" },
		"no marks":          func(f *Flags) { f.Marks = Marks{} },
		"ports reversed":    func(f *Flags) { f.MasqueradePorts = PortRange{20000, 10000} },
		"ports from zero":   func(f *Flags) { f.MasqueradePorts = PortRange{0, 10000} },
		"no interface":      func(f *Flags) { f.Detector = Detector{Mode: DetectBridge} },
		"interface blank":   func(f *Flags) { f.Detector = Detector{Mode: DetectBridge, Interface: "a -j DROP"} },
		"interface newline": func(f *Flags) { f.Detector = Detector{Mode: DetectInterfacePrefix, Interface: "a\nCOMMIT"} },
		"interface long":    func(f *Flags) { f.Detector = Detector{Mode: DetectInterfacePrefix, Interface: "abcdefghijklmno"} },
		"wrong family": func(f *Flags) {
			f.Detector.IPv4, f.Detector.IPv6 = f.Detector.IPv6, f.Detector.IPv4
		},
		"mode": func(f *Flags) { f.Detector.Mode = 9 },
	} {
		f := podNetwork()
		change(&f)
		if f.Validate() == nil {
			t.Errorf("%s: want an error", name)
		}
	}
	if err := podNetwork().Validate(); err != nil {
		t.Error(err)
	}
}
