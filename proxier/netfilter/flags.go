// Package netfilter keeps the static rules: the iptables chains that masquerade,
// refuse, drop, accept and mark what the ipsets name. The text depends on Flags
// alone, never on a Service: every rule is always there, and an empty set matches
// nothing. The package also deletes stale conntrack flows.
package netfilter

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Backend chooses the pair of programs that writes the rules. A host may have
// both kinds of rules at once, and then both apply.
type Backend string

// The back ends.
const (
	BackendAuto   Backend = "" // plain iptables and ip6tables, whatever they are
	BackendNFT    Backend = "nft"
	BackendLegacy Backend = "legacy"
)

// Flags is everything that the text of the rules depends on. It is comparable.
// The zero value of a field is named where it is not simply "off".
type Flags struct {
	// Backend chooses the programs. It does not change the text.
	Backend Backend
	// IPv4 and IPv6 turn the families on; at least one must be.
	IPv4, IPv6 bool
	// Marks lays out the firewall mark; see NewMarks.
	Marks Marks
	// Detector tells pods of this node from everyone else; zero: no one is local.
	Detector Detector
	// MasqueradeAll gives all traffic to ClusterIPs the node's address.
	MasqueradeAll bool
	// MasqueradePorts are the source ports to masquerade with; zero: any. Ports
	// outside the NodePort range keep a reply from being taken for a request to a
	// NodePort (kubernetes/kubernetes#139276).
	MasqueradePorts PortRange
	// RandomFully chooses those ports at random; iptables has it since 1.6.2.
	RandomFully bool
	// AcceptInput accepts requests to frontends in filter INPUT, ahead of the host's
	// own rules: IPVS takes them after that chain, so a policy of DROP would stop
	// them (kubernetes/kubernetes#98465). Off where a policy engine judges the
	// traffic of pods to Services in filter INPUT, as Calico does for IPVS.
	AcceptInput bool
	// TCPBeLiberal leaves packets alone that conntrack calls invalid; they are
	// dropped in FORWARD otherwise. It goes with the sysctl
	// net.netfilter.nf_conntrack_tcp_be_liberal.
	TCPBeLiberal bool
	// IPVSMatch says that the kernel has xt_ipvs. With it the mark of the short
	// circuit is cleared on packets of IPVS only.
	IPVSMatch bool
}

// DefaultMasqueradeBit is kube-proxy's default of iptables.masqueradeBit.
const DefaultMasqueradeBit = 14

// DefaultFlags returns what a cluster without special wishes wants: both families,
// no detector, kube-proxy's masquerade bit.
func DefaultFlags() Flags {
	marks, err := NewMarks(DefaultMasqueradeBit)
	if err != nil {
		panic(err) // the constant is in range
	}
	return Flags{IPv4: true, IPv6: true, Marks: marks, RandomFully: true, AcceptInput: true, IPVSMatch: true}
}

// Validate names the first field that cannot be rendered.
func (f Flags) Validate() error {
	if !f.IPv4 && !f.IPv6 {
		return errors.New("neither IPv4 nor IPv6 is on")
	}
	switch f.Backend {
	case BackendAuto, BackendNFT, BackendLegacy:
	default:
		return fmt.Errorf("iptables back end %q: want nft, legacy or nothing", f.Backend)
	}
	if f.Marks.Masquerade == 0 {
		return errors.New("marks are not set")
	}
	if p := f.MasqueradePorts; p.From > p.To || p.From == 0 && p.To != 0 {
		return fmt.Errorf("masquerade ports %d-%d: not a range", p.From, p.To)
	}
	return f.Detector.validate()
}

// PortRange is From-To, both included; zero means any port.
type PortRange struct {
	From, To uint16
}

// Marks lays out the 32 bits of the firewall mark. The four values share no bit
// and cover all of them.
type Marks struct {
	// Masquerade is the bit of packets that get the node's address.
	Masquerade uint32
	// Capture is the bit of packets to captured addresses, until mangle INPUT.
	Capture uint32
	// Index holds the number of a firewall-mark server.
	Index uint32
	// Foreign is what belongs to others, such as the network plugin.
	Foreign uint32
}

// indexBits is the most bits that an index takes; more would only take marks from others.
const indexBits = 14

// NewMarks lays out the mark from kube-proxy's iptables.masqueradeBit (0 to 31):
// capture is the next bit (the one before for 31), and the index has the lowest
// bits below both, at most 14. A low masquerade bit leaves few or no indexes.
func NewMarks(masqueradeBit int) (Marks, error) {
	if masqueradeBit < 0 || masqueradeBit > 31 {
		return Marks{}, fmt.Errorf("masquerade bit %d: not in 0-31", masqueradeBit)
	}
	captureBit := masqueradeBit + 1
	if captureBit > 31 {
		captureBit = masqueradeBit - 1
	}
	m := Marks{
		Masquerade: 1 << masqueradeBit,
		Capture:    1 << captureBit,
		Index:      1<<min(masqueradeBit, indexBits) - 1,
	}
	m.Foreign = ^(m.Masquerade | m.Capture | m.Index)
	return m, nil
}

// DetectMode says how traffic of this node's pods is recognised
// (KubeProxyConfiguration detectLocalMode).
type DetectMode uint8

// The modes. NodeCIDR of kube-proxy is DetectCIDR with the node's own ranges.
const (
	DetectNone DetectMode = iota
	DetectCIDR
	DetectBridge
	DetectInterfacePrefix
)

// Detector recognises traffic of pods. A family without a CIDR has no detector.
type Detector struct {
	Mode DetectMode
	// IPv4 and IPv6 are source ranges, for DetectCIDR.
	IPv4, IPv6 netip.Prefix
	// Interface is a bridge's name, or the beginning of the names of pods' interfaces.
	Interface string
}

// maxInterfaceName is IFNAMSIZ less the final zero; a prefix needs one more for its "+".
const maxInterfaceName = 15

func (d Detector) validate() error {
	switch d.Mode {
	case DetectNone:
		return nil
	case DetectCIDR:
		if d.IPv4.IsValid() && !d.IPv4.Addr().Is4() || d.IPv6.IsValid() && !d.IPv6.Addr().Is6() {
			return fmt.Errorf("local ranges %s and %s: wrong family", d.IPv4, d.IPv6)
		}
		return nil
	case DetectBridge, DetectInterfacePrefix:
		longest := maxInterfaceName
		if d.Mode == DetectInterfacePrefix {
			longest--
		}
		if d.Interface == "" || len(d.Interface) > longest || strings.ContainsAny(d.Interface, " \t\n\"'\\/!+") {
			return fmt.Errorf("local interface %q: not a name of 1 to %d characters", d.Interface, longest)
		}
		return nil
	}
	return fmt.Errorf("local traffic detection: unknown mode %d", d.Mode)
}

// match returns the arguments that match local traffic of a family, or "" when
// there is no detector for it. A locally made packet has no input interface and
// matches no interface.
func (d Detector) match(ipv6 bool) string {
	switch d.Mode {
	case DetectCIDR:
		cidr := d.IPv4
		if ipv6 {
			cidr = d.IPv6
		}
		if cidr.IsValid() {
			return "-s " + cidr.Masked().String()
		}
	case DetectBridge:
		return "-i " + d.Interface
	case DetectInterfacePrefix:
		return "-i " + d.Interface + "+"
	}
	return ""
}
