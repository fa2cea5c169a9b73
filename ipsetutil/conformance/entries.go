package conformance

import (
	"net/netip"

	"kube-ipvs-proxy/ipsetutil"
)

func hash(name string, typ ipsetutil.Type, f ipsetutil.Family) ipsetutil.Set {
	return ipsetutil.Set{Name: name, Type: typ, Family: f, MaxElem: 65536}
}

func bitmap(name string) ipsetutil.Set {
	return ipsetutil.Set{Name: name, Type: ipsetutil.BitmapPort}
}

func add(set string, e ipsetutil.Entry) ipsetutil.Change {
	return ipsetutil.Change{Member: ipsetutil.Member{Set: set, Entry: e}}
}

func addMark(set string, e ipsetutil.Entry, mark uint32) ipsetutil.Change {
	c := add(set, e)
	c.Mark = mark
	return c
}

func del(set string, e ipsetutil.Entry) ipsetutil.Change {
	c := add(set, e)
	c.Delete = true
	return c
}

// port4 is the i-th of 2^16 entries for hash:ip,port.
func port4(i int) ipsetutil.Entry {
	return ipsetutil.Entry{
		Addr:     netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}),
		Protocol: 6,
		Port:     uint16(i),
	}
}

// address is the i-th of 200 addresses of a family, no two with equal bytes.
func address(f ipsetutil.Family, i int) netip.Addr {
	if f == ipsetutil.IPv6 {
		return netip.AddrFrom16([16]byte{0xfd, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, byte(i), 15})
	}
	return netip.AddrFrom4([4]byte{10, 1, byte(i + 2), 3})
}

// samples are entries of every form that a set of this type and family can hold.
func samples(set ipsetutil.Set) []ipsetutil.Entry {
	if set.Type == ipsetutil.BitmapPort {
		return []ipsetutil.Entry{{Port: 0}, {Port: 1}, {Port: 0x1234}, {Port: 65535}}
	}
	var entries []ipsetutil.Entry
	for i, protocol := range []uint8{6, 17, 132} {
		for _, port := range []uint16{0, 1, 0x1234, 65535} {
			entries = append(entries, ipsetutil.Entry{Addr: address(set.Family, i), Protocol: protocol, Port: port})
		}
	}
	// Protocols without ports, as a stranger may have added them.
	entries = append(entries, ipsetutil.Entry{Addr: address(set.Family, 1), Protocol: 47})
	switch set.Type {
	case ipsetutil.HashIP:
		return []ipsetutil.Entry{{Addr: address(set.Family, 0)}, {Addr: address(set.Family, 1)}}
	case ipsetutil.HashIPPortIP:
		return withSources(entries, hosts(set.Family))
	case ipsetutil.HashIPPortNet:
		return withSources(entries, append(hosts(set.Family), nets(set.Family)...))
	}
	return entries
}

// hosts are the sources of one address.
func hosts(f ipsetutil.Family) []netip.Prefix {
	all := []netip.Addr{address(f, 0), address(f, 150), netip.IPv6Unspecified()}
	if f == ipsetutil.IPv4 {
		all[2] = netip.IPv4Unspecified()
	}
	var prefixes []netip.Prefix
	for _, a := range all {
		prefixes = append(prefixes, netip.PrefixFrom(a, a.BitLen()))
	}
	return prefixes
}

// nets are sources of every other length, from 1 on.
func nets(f ipsetutil.Family) []netip.Prefix {
	a := address(f, 99)
	var prefixes []netip.Prefix
	for bits := 1; bits < a.BitLen(); bits++ {
		prefixes = append(prefixes, netip.PrefixFrom(a, bits).Masked())
	}
	return prefixes
}

// withSources gives each entry the next source in turn, and each source an entry.
func withSources(entries []ipsetutil.Entry, sources []netip.Prefix) []ipsetutil.Entry {
	var all []ipsetutil.Entry
	for i := range max(len(entries), len(sources)) {
		e := entries[i%len(entries)]
		e.Source = sources[i%len(sources)]
		all = append(all, e)
	}
	return all
}
