//go:build kernel

package kernel

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	vishnetlink "github.com/vishvananda/netlink"

	"kube-ipvs-proxy/ipsetutil"
)

// entries are three members that fit the set.
func entries(s ipsetutil.Set) []ipsetutil.Entry {
	a := []string{"10.96.0.1", "10.96.0.2", "10.96.255.254"}
	sources := []string{"10.0.0.0/8", "128.0.0.0/1", "192.0.2.1/32"}
	if s.Family == ipsetutil.IPv6 {
		a = []string{"fd00::1", "fd00::2", "fd00::ffff:fffe"}
		sources = []string{"fd00::/8", "8000::/1", "2001:db8::1/128"}
	}
	all := make([]ipsetutil.Entry, 3)
	for i := range all {
		e := ipsetutil.Entry{Addr: netip.MustParseAddr(a[i])}
		if s.Type != ipsetutil.HashIP {
			e.Port = []uint16{53, 8080, 65535}[i]
			e.Protocol = []uint8{17, 6, 132}[i]
		}
		switch s.Type {
		case ipsetutil.BitmapPort:
			e = ipsetutil.Entry{Port: e.Port}
		case ipsetutil.HashIPPortIP:
			e.Source = netip.PrefixFrom(e.Addr, e.Addr.BitLen())
		case ipsetutil.HashIPPortNet:
			e.Source = netip.MustParsePrefix(sources[i])
		}
		all[i] = e
	}
	return all
}

// mark is the mark of the i-th entry.
func mark(s ipsetutil.Set, i int) uint32 {
	if s.Marks {
		return 0x20001 + uint32(i)
	}
	return 0
}

// fill creates all own sets, each with three entries.
func fill(t *testing.T, c *Conn) {
	t.Helper()
	var changes []ipsetutil.Change
	for _, s := range ipsetutil.All() {
		if err := c.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		for i, e := range entries(s) {
			changes = append(changes, ipsetutil.Change{Member: ipsetutil.Member{Set: s.Name, Entry: e}, Mark: mark(s, i)})
		}
	}
	if errs := c.Do(t.Context(), changes); errs != nil {
		t.Fatal(errors.Join(errs...))
	}
}

// saved is what "ipset save" must say of the set, the entries sorted.
func saved(s ipsetutil.Set) []string {
	var lines []string
	for i, e := range entries(s) {
		line := fmt.Sprintf("add %s %s", s.Name, e)
		if s.Marks {
			line += fmt.Sprintf(" skbmark %#x", mark(s, i))
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	create := fmt.Sprintf("create %s %s range 0-65535", s.Name, s.Type)
	if s.Type != ipsetutil.BitmapPort {
		create = fmt.Sprintf("create %s %s family %s hashsize 1024 maxelem 65536", s.Name, s.Type, s.Family)
	}
	if s.Marks {
		create += " skbinfo"
	}
	return append([]string{create}, lines...)
}

// The ipset program shows every set and member as its own syntax has them, and
// loads its own text again.
func TestProgramShowsAll(t *testing.T) {
	c := open(t)
	fill(t, c)
	for _, s := range ipsetutil.All() {
		want := saved(s)
		lines := strings.Split(strings.TrimSpace(command(t, "ipset", "save", s.Name)), "\n")
		slices.Sort(lines[1:])
		if !slices.Equal(lines, want) {
			t.Errorf("ipset save:\n%s\nwant:\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
		list := command(t, "ipset", "list", s.Name)
		for _, text := range []string{"\nType: " + string(s.Type) + "\n", "\nNumber of entries: 3\n"} {
			if !strings.Contains(list, text) {
				t.Errorf("ipset list lacks %q:\n%s", text, list)
			}
		}
	}
	all := command(t, "ipset", "save")
	inNamespace(t)
	restore := exec.Command("ipset", "restore")
	restore.Stdin = strings.NewReader(all)
	if out, err := restore.CombinedOutput(); err != nil {
		t.Errorf("ipset restore of what it saved: %v\n%s", err, out)
	}
}

// kube-proxy can start on our sets: its create commands succeed, and so do ours on its sets.
func TestCreateLikeKubeProxy(t *testing.T) {
	create := func(s ipsetutil.Set) {
		args := []string{"create", s.Name, string(s.Type), "family", s.Family.String(), "hashsize", "1024", "maxelem", "65536", "-exist"}
		if s.Type == ipsetutil.BitmapPort {
			args = []string{"create", s.Name, string(s.Type), "range", "0-65535", "-exist"}
		}
		command(t, "ipset", args...)
	}
	c := open(t)
	fill(t, c)
	kube := slices.DeleteFunc(ipsetutil.All(), func(s ipsetutil.Set) bool { return !strings.HasPrefix(s.Name, "KUBE-") })
	if len(kube) != 34 {
		t.Fatalf("%d sets of kube-proxy", len(kube))
	}
	for _, s := range kube {
		create(s)
		if m, err := c.Members(t.Context(), s.Name); err != nil || len(m) != 3 {
			t.Errorf("%s has %v, error %v", s.Name, m, err)
		}
	}
	c = open(t)
	for _, s := range kube {
		create(s)
	}
	fill(t, c)
}

// An independent reader finds the same members.
func TestOtherReader(t *testing.T) {
	log.SetOutput(io.Discard) // it logs the attributes it does not know: marks
	defer log.SetOutput(os.Stderr)
	c := open(t)
	fill(t, c)
	other, err := vishnetlink.NewHandle()
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for _, s := range ipsetutil.All() {
		result, err := other.IpsetList(s.Name)
		if err != nil {
			t.Fatalf("%s: %v", s.Name, err)
		}
		if result.TypeName != string(s.Type) || result.MaxElements != s.MaxElem || result.NumEntries != 3 {
			t.Errorf("%s: %+v", s.Name, result)
		}
		var got []ipsetutil.Entry
		for _, e := range result.Entries {
			got = append(got, translate(t, s, e))
		}
		want := entries(s)
		order := func(a, b ipsetutil.Entry) int { return cmp.Compare(a.String(), b.String()) }
		slices.SortFunc(got, order)
		slices.SortFunc(want, order)
		if !slices.Equal(got, want) {
			t.Errorf("%s has %v, want %v", s.Name, got, want)
		}
	}
}

func translate(t *testing.T, s ipsetutil.Set, e vishnetlink.IPSetEntry) ipsetutil.Entry {
	t.Helper()
	var out ipsetutil.Entry
	if e.IP != nil {
		out.Addr, _ = netip.AddrFromSlice(e.IP)
	}
	if e.Port != nil {
		out.Port = *e.Port
	}
	if e.Protocol != nil {
		out.Protocol = *e.Protocol
	}
	if e.IP2 != nil {
		a, _ := netip.AddrFromSlice(e.IP2)
		bits := a.BitLen()
		if s.Type == ipsetutil.HashIPPortNet {
			bits = int(e.CIDR2)
		}
		out.Source = netip.PrefixFrom(a, bits)
	}
	return out
}

// What a stranger wrote is read right, never equals what is wanted when it acts
// differently, and can be replaced and deleted.
func TestStrangeEntries(t *testing.T) {
	c := open(t)
	marks, cidr, node := ipsetutil.ShortCircuit.For(false), ipsetutil.LoadBalancerSourceCIDR.For(true), ipsetutil.ClusterIP.For(false)
	for _, s := range []ipsetutil.Set{marks, cidr, node} {
		if err := c.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	http := ipsetutil.Entry{Addr: netip.MustParseAddr("10.0.0.1"), Protocol: 6, Port: 80}
	gre := ipsetutil.Entry{Addr: http.Addr, Protocol: 47}
	ping := ipsetutil.Entry{Addr: http.Addr, Protocol: 1, Port: 8 << 8}
	lite := ipsetutil.Entry{Addr: http.Addr, Protocol: 136, Port: 80}
	from := ipsetutil.Entry{Addr: netip.MustParseAddr("fd00::1"), Protocol: 6, Port: 80, Source: netip.MustParsePrefix("fd00::/64")}
	command(t, "ipset", "add", marks.Name, "10.0.0.1,tcp:80", "skbmark", "0x20001/0xfffff", "skbprio", "1:2", "skbqueue", "3")
	command(t, "ipset", "add", marks.Name, "10.0.0.1,gre:0")
	command(t, "ipset", "add", cidr.Name, "fd00::1,tcp:80,fd00::/64", "nomatch")
	command(t, "ipset", "add", node.Name, "10.0.0.1,icmp:echo-request")
	command(t, "ipset", "add", node.Name, "10.0.0.1,udplite:80")
	want := func(set string, want map[ipsetutil.Entry]uint32) {
		t.Helper()
		if got, err := c.Members(t.Context(), set); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s has %v, want %v, error %v", set, got, want, err)
		}
	}
	want(marks.Name, map[ipsetutil.Entry]uint32{http: ipsetutil.StrangeMark, gre: 0})
	want(cidr.Name, map[ipsetutil.Entry]uint32{from: ipsetutil.StrangeMark})
	want(node.Name, map[ipsetutil.Entry]uint32{ping: 0, lite: 0})

	change := func(set string, e ipsetutil.Entry, del bool, mark uint32) ipsetutil.Change {
		return ipsetutil.Change{Delete: del, Mark: mark, Member: ipsetutil.Member{Set: set, Entry: e}}
	}
	if errs := c.Do(t.Context(), []ipsetutil.Change{
		change(marks.Name, http, false, 0x20001), change(marks.Name, gre, true, 0), change(cidr.Name, from, false, 0),
		change(node.Name, ping, true, 0), change(node.Name, lite, true, 0),
	}); errs != nil {
		t.Fatal(errors.Join(errs...))
	}
	want(marks.Name, map[ipsetutil.Entry]uint32{http: 0x20001})
	want(cidr.Name, map[ipsetutil.Entry]uint32{from: 0})
	want(node.Name, nil)
	if text := command(t, "ipset", "save", cidr.Name); strings.Contains(text, "nomatch") {
		t.Errorf("the flag stayed:\n%s", text)
	}
}
