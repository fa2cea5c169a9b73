package host

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// The keywords of nodePortAddresses.
const (
	selectPrimary   = "primary"   // the Node's own addresses
	selectLocalhost = "localhost" // 127.0.0.0/8 and ::1
	selectAll       = "all"       // every address of both families
)

// NodePortSelectors say which addresses of the node serve NodePorts: the parsed
// nodePortAddresses of the configuration. The zero value means all.
type NodePortSelectors struct {
	primary, localhost, all bool
	prefixes                []netip.Prefix
}

// ParseNodePortSelectors reads CIDRs and keywords, freely mixed. Bits of a CIDR
// behind its length do not matter. A keyword that is given twice is an error.
func ParseNodePortSelectors(entries []string) (NodePortSelectors, error) {
	var s NodePortSelectors
	keywords := map[string]*bool{selectPrimary: &s.primary, selectLocalhost: &s.localhost, selectAll: &s.all}
	for i, entry := range entries {
		if keyword, ok := keywords[entry]; ok {
			if *keyword {
				return NodePortSelectors{}, fmt.Errorf("nodePortAddresses[%d]: %q is there twice", i, entry)
			}
			*keyword = true
			continue
		}
		prefix, err := netip.ParsePrefix(entry)
		if err != nil || prefix.Addr().Is4In6() {
			return NodePortSelectors{}, fmt.Errorf("nodePortAddresses[%d]: %q is neither a CIDR such as 192.0.2.0/24 nor one of primary, localhost, all", i, entry)
		}
		s.prefixes = append(s.prefixes, prefix.Masked())
	}
	return s, nil
}

// String returns the entries as they are written in the configuration, "all" for none.
func (s NodePortSelectors) String() string {
	var parts []string
	for _, k := range []struct {
		on   bool
		word string
	}{{s.primary, selectPrimary}, {s.localhost, selectLocalhost}, {s.all, selectAll}} {
		if k.on {
			parts = append(parts, k.word)
		}
	}
	for _, p := range s.prefixes {
		parts = append(parts, p.String())
	}
	if parts == nil {
		return selectAll
	}
	return strings.Join(parts, ",")
}

// Unlimited reports whether NodePorts of the family are served on every address of
// the node, which is worth a warning at the start.
func (s NodePortSelectors) Unlimited(ipv6 bool) bool {
	if s.all {
		return true
	}
	named := s.primary || s.localhost
	for _, p := range s.prefixes {
		if p.Addr().Is6() == ipv6 {
			if p.Bits() == 0 {
				return true
			}
			named = true
		}
	}
	return !named
}

// Loopback reports whether an entry names loopback addresses, be it by keyword.
func (s NodePortSelectors) Loopback() bool {
	return s.localhost || slices.ContainsFunc(s.prefixes, func(p netip.Prefix) bool { return p.Addr().IsLoopback() })
}

// NodePortAddresses picks from all addresses of the node (without those bound for
// Services) the ones that serve NodePorts, sorted. nodeIPs are the Node's addresses
// as far as they are known; a loopback one stands for unknown.
//
// A family without entries is served on all addresses, as in kube-proxy, with one
// exception: "primary" limits a family even if its address is unknown
// (kube-proxy then opens the family on all addresses). "All" does not reach
// loopback nor IPv6 link-local addresses: those have to be named.
func NodePortAddresses(all, nodeIPs []netip.Addr, s NodePortSelectors) []netip.Addr {
	var picked []netip.Addr
	unlimited := map[bool]bool{false: s.Unlimited(false), true: s.Unlimited(true)}
	for _, addr := range all {
		if s.names(addr, nodeIPs) || unlimited[addr.Is6()] && !needsName(addr) {
			picked = append(picked, addr)
		}
	}
	slices.SortFunc(picked, netip.Addr.Compare)
	return slices.Compact(picked)
}

// names reports whether an entry other than a whole family covers the address.
func (s NodePortSelectors) names(addr netip.Addr, nodeIPs []netip.Addr) bool {
	if addr.IsLoopback() && s.localhost {
		return true
	}
	if s.primary && !addr.IsLoopback() && slices.Contains(nodeIPs, addr) {
		return true
	}
	return slices.ContainsFunc(s.prefixes, func(p netip.Prefix) bool { return p.Bits() > 0 && p.Contains(addr) })
}

// needsName reports an address that no wildcard reaches.
func needsName(addr netip.Addr) bool {
	return addr.IsLoopback() || addr.Is6() && addr.IsLinkLocalUnicast()
}
