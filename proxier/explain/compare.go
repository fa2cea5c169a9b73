package explain

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
)

// Difference is one thing in the kernel that is not as desired.
type Difference struct {
	// Kind is for example "real server"; Object names it.
	Kind   string `json:"kind"`
	Object string `json:"object"`
	// Service is the one that it is for; empty when that is none or cannot be told.
	Service string `json:"service,omitempty"`
	Want    string `json:"want"`
	Have    string `json:"have"`
	// Means says what traffic comes to.
	Means string `json:"means"`
	// Fine differences are part of normal work, such as a real server that drains.
	Fine bool `json:"fine,omitempty"`

	key    ipvsutil.Key
	member ipsetutil.Member
	addr   netip.Addr
}

// The words for "there" and "not there".
const (
	absent  = "missing"
	present = "there"
	nothing = "nothing"
)

// Compare returns what differs, sorted: what concerns most traffic first, then by
// object. Parts that could not be read give none.
func Compare(desired *ledger.Ledger, o Observed) []Difference {
	c := comparison{desired: desired, observed: o, lingering: lingering(desired, o)}
	for _, part := range Parts() {
		if !o.Known(part) {
			continue
		}
		before := len(c.found)
		c.part(part)
		slices.SortStableFunc(c.found[before:], func(a, b Difference) int {
			return cmp.Or(cmp.Compare(a.Kind, b.Kind), a.key.Compare(b.key), a.addr.Compare(b.addr), strings.Compare(a.Object, b.Object))
		})
	}
	return c.found
}

// Wrong returns the differences that are not fine.
func Wrong(all []Difference) []Difference {
	var wrong []Difference
	for _, d := range all {
		if !d.Fine {
			wrong = append(wrong, d)
		}
	}
	return wrong
}

type comparison struct {
	desired   *ledger.Ledger
	observed  Observed
	lingering map[ipvsutil.Key]bool
	found     []Difference
}

func (c *comparison) add(d Difference) { c.found = append(c.found, d) }

func (c *comparison) part(p Part) {
	switch p {
	case Bound:
		c.bound()
	case Captured:
		c.captured()
	case Servers:
		c.servers()
	case Sets:
		c.sets()
	case Rules:
		for _, line := range c.observed.RuleProblems {
			c.add(Difference{Kind: "rules", Object: line, Want: "as rendered", Have: "changed", Means: meaningOfRules(line)})
		}
	case Settings:
		c.settings()
	}
}

// settings of IPv6 do not matter without a frontend of IPv6.
func (c *comparison) settings() {
	ipv6 := false
	for key := range c.desired.Servers() {
		ipv6 = ipv6 || key.IsIPv6()
	}
	for _, s := range c.observed.Settings {
		if ipv6 || !strings.HasPrefix(s.Name, "net.ipv6.") {
			c.add(Difference{Kind: "setting", Object: s.Name, Want: s.Want, Have: cmp.Or(s.Have, "unreadable"), Means: s.Breaks, Fine: s.Advice})
		}
	}
}

func (c *comparison) bound() {
	o := c.observed
	if !o.Device {
		c.add(Difference{Kind: "device", Object: ipvsutil.Device, Want: present, Have: absent,
			Means: "addresses on it are gone: clients of ClusterIPs time out or reach another host"})
	}
	for a := range c.desired.BoundAddrs() {
		if !o.Bound[a] && o.Device { // a device that is gone says it all
			c.add(Difference{Kind: "address", Object: a.String(), addr: a, Want: "bound", Have: absent,
				Means: "packets to it leave the node or get no answer: clients time out"})
		}
	}
	for a := range o.Bound {
		if !c.desired.Bound(a) {
			c.extraAddress(a, "address", "bound", "no Service has it, and connections to it end at this node")
		}
	}
}

func (c *comparison) captured() {
	o := c.observed
	for _, ipv6 := range []bool{false, true} {
		if ipv6 && !o.IPv6 || o.PolicyRules[index(ipv6)] {
			continue
		}
		c.add(Difference{Kind: "policy rule", Object: familyName(ipv6) + " capture", Want: present, Have: absent,
			Means: "external addresses that the node does not own are not served here"})
	}
	for a := range c.desired.CapturedAddrs() {
		if !o.Captured[a] {
			c.add(Difference{Kind: "route", Object: a.String(), addr: a, Want: "captured", Have: absent,
				Means: "packets of other hosts and pods to it are routed on instead of served here"})
		}
	}
	for a := range o.Captured {
		if !c.desired.Captured(a) {
			c.extraAddress(a, "route", "captured", "no Service has it any more; packets to other ports of it are not affected")
		}
	}
}

// extraAddress is one that nobody wants; a server that lingers may need it, or processes
// that began to talk from it when another proxy served the node.
func (c *comparison) extraAddress(a netip.Addr, kind, have, means string) {
	d := Difference{Kind: kind, Object: a.String(), addr: a, Want: nothing, Have: have, Means: means}
	for key := range c.lingering {
		if key.Addr.Addr() == a {
			d.Fine, d.Means = true, "stays until the last connection of "+key.String()+" ends"
		}
	}
	if kind == "address" && c.desired.Captured(a) {
		d.Means = "its Service captures it port by port: bound, its owner cannot be reached from this node"
		switch {
		case c.observed.TalkedFrom[a]:
			d.Fine, d.Means = true, "stays until the processes of the node that talk from it end their connections"
		case c.observed.Leaving[a]:
			d.Fine, d.Means = true, "stays for some seconds, for answers to what processes of the node asked from it"
		}
	}
	c.add(d)
}

// lingering are our servers that nobody claims and that take no new connections: they
// stay until their connections end.
func lingering(desired *ledger.Ledger, o Observed) map[ipvsutil.Key]bool {
	lingers := map[ipvsutil.Key]bool{}
	for key, s := range o.Servers {
		if wanted(desired, key) || o.Owns == nil || !o.Owns(key) || len(s.RealServers) == 0 {
			continue
		}
		if !slices.ContainsFunc(s.RealServers, func(r ipvsutil.RealServerState) bool { return r.Weight != 0 }) {
			lingers[key] = true
		}
	}
	return lingers
}

func index(ipv6 bool) int {
	if ipv6 {
		return 1
	}
	return 0
}

func familyName(ipv6 bool) string {
	if ipv6 {
		return "IPv6"
	}
	return "IPv4"
}
