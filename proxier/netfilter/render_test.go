package netfilter

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

// flagSets are the flags whose text is kept in testdata.
func flagSets() map[string]Flags {
	all := podNetwork()
	all.MasqueradeAll = true
	all.TCPBeLiberal = true
	bridge := DefaultFlags()
	bridge.Detector = Detector{Mode: DetectBridge, Interface: "cni0"}
	bridge.MasqueradePorts = PortRange{1024, 29999}
	plain := DefaultFlags()
	plain.AcceptInput, plain.IPVSMatch, plain.RandomFully = false, false, false
	prefix := DefaultFlags()
	prefix.Detector = Detector{Mode: DetectInterfacePrefix, Interface: "veth"}
	prefix.Marks, _ = NewMarks(20)
	return map[string]Flags{
		"cidr": podNetwork(), "masquerade-all": all, "bridge-ports": bridge,
		"no-detector-plain": plain, "prefix-bit20": prefix,
	}
}

func TestRenderGolden(t *testing.T) {
	for name, flags := range flagSets() {
		for _, ipv6 := range []bool{false, true} {
			file := filepath.Join("testdata", name+"-"+familyName(ipv6)+".rules")
			got := Render(flags, ipv6).String()
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s differs (-update writes it anew):\n%s", file, diff)
			}
		}
	}
}

// TestRenderIsWhole checks what iptables-restore would refuse or a reader could miss.
func TestRenderIsWhole(t *testing.T) {
	stamps := map[string]string{}
	for name, flags := range flagSets() {
		for _, ipv6 := range []bool{false, true} {
			rs := Render(flags, ipv6)
			if other, ok := stamps[rs.Stamp]; ok {
				t.Errorf("%s and %s have one stamp", name, other)
			}
			stamps[rs.Stamp] = name
			if again := Render(flags, ipv6); again.Stamp != rs.Stamp {
				t.Errorf("%s: another stamp for the same flags", name)
			}
			for _, table := range rs.Tables {
				checkTable(t, name, table)
			}
		}
	}
}

// checkTable wants every chain to be reachable, every target to be there, and no
// chain's name to be too long for the kernel (XT_EXTENSION_MAXNAMELEN less one).
func checkTable(t *testing.T, name string, table Table) {
	chains, reached := map[string]bool{}, map[string]bool{stampChain: true}
	for _, c := range table.Chains {
		if chains[c.Name] || len(c.Name) > 28 {
			t.Errorf("%s %s: chain %s is there twice or too long", name, table.Name, c.Name)
		}
		chains[c.Name] = true
	}
	for _, j := range table.Jumps {
		reached[j.To] = true
	}
	for _, c := range table.Chains {
		for _, rule := range c.Rules {
			to := target(rule)
			reached[to] = true
			if strings.HasPrefix(to, "K") && !chains[to] {
				t.Errorf("%s %s %s: jump to %s, which is not there", name, table.Name, c.Name, to)
			}
			if to == "" || strings.Contains(rule, "  ") {
				t.Errorf("%s %s %s: rule %q", name, table.Name, c.Name, rule)
			}
		}
	}
	for c := range chains {
		// Without a detector no pod is known, so nothing leads to the short circuit but OUTPUT.
		if !reached[c] {
			t.Errorf("%s %s: nothing leads to %s", name, table.Name, c)
		}
	}
}

func TestEveryFlagChangesTheText(t *testing.T) {
	base := podNetwork()
	for name, change := range map[string]func(*Flags){
		"Marks":           func(f *Flags) { f.Marks, _ = NewMarks(13) },
		"Detector":        func(f *Flags) { f.Detector = Detector{} },
		"MasqueradeAll":   func(f *Flags) { f.MasqueradeAll = true },
		"MasqueradePorts": func(f *Flags) { f.MasqueradePorts = PortRange{1024, 29999} },
		"RandomFully":     func(f *Flags) { f.RandomFully = false },
		"AcceptInput":     func(f *Flags) { f.AcceptInput = false },
		"TCPBeLiberal":    func(f *Flags) { f.TCPBeLiberal = true },
		"IPVSMatch":       func(f *Flags) { f.IPVSMatch = false },
	} {
		f := base
		change(&f)
		for _, ipv6 := range []bool{false, true} {
			if Render(f, ipv6).Stamp == Render(base, ipv6).Stamp {
				t.Errorf("%s %s: the text is the same", name, familyName(ipv6))
			}
		}
	}
}
