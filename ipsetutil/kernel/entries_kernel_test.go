//go:build kernel

package kernel

import (
	"net/netip"
	"testing"

	"kube-ipvs-proxy/ipsetutil"
)

// Entries of a protocol without ports, at addresses that no host has, are kept like
// any other, with their mark.
func TestEntriesThatNoPacketHas(t *testing.T) {
	c := open(t)
	for addr, ipv6 := range map[string]bool{"0.0.128.1": false, "0.0.0.1": false, "::8001": true, "::1": true} {
		set := ipsetutil.ShortCircuit.For(ipv6)
		if err := c.Create(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		m := ipsetutil.Member{Set: set.Name, Entry: ipsetutil.Entry{Addr: netip.MustParseAddr(addr), Protocol: 59}}
		if errs := c.Do(t.Context(), []ipsetutil.Change{{Member: m, Mark: 0x8001}}); errs != nil {
			t.Fatal(errs)
		}
		members, err := c.Members(t.Context(), set.Name)
		if err != nil || members[m.Entry] != 0x8001 {
			t.Errorf("%v: %v %v", m, members, err)
		}
		if errs := c.Do(t.Context(), []ipsetutil.Change{{Delete: true, Member: m}}); errs != nil {
			t.Error(errs)
		}
	}
}
