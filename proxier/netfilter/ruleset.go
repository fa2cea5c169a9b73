package netfilter

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"kube-ipvs-proxy/ipsetutil"
)

// Ruleset is what one family's iptables should hold of ours.
type Ruleset struct {
	IPv6 bool
	// Tables are in the order in which they are written.
	Tables []Table
	// Stamp is a hash of everything else in the value.
	Stamp string
}

// Table is our part of an iptables table.
type Table struct {
	Name   string
	Chains []Chain
	// Jumps stand at the head of their built-in chain, in this order.
	Jumps []Jump
}

// Chain is a chain of ours with its rules, each without "-A NAME".
type Chain struct {
	Name  string
	Rules []string
}

// Jump leads from a built-in chain to one of ours, without further condition.
type Jump struct {
	From, To string
	Comment  string
}

// rule returns the text after "-A FROM".
func (j Jump) rule() string {
	return fmt.Sprintf("-m comment --comment %q -j %s", j.Comment, j.To)
}

// Names of the tables.
const (
	tableMangle = "mangle"
	tableNAT    = "nat"
	tableFilter = "filter"
)

// stampChain is a chain that nothing jumps to; the comment of its one rule tells
// which text was written. It is in the table that is written last.
const stampChain = "KIPVS-STAMP"

// stampPrefix begins the comment, before the stamp.
const stampPrefix = "kube-ipvs-proxy "

// Render makes the rules of a family from the flags. It is pure.
func Render(flags Flags, ipv6 bool) Ruleset {
	r := renderer{flags: flags, ipv6: ipv6, local: flags.Detector.match(ipv6)}
	rs := Ruleset{IPv6: ipv6, Tables: []Table{r.mangle(), r.nat(), r.filter()}}
	sum := sha256.Sum256([]byte(rs.String()))
	rs.Stamp = hex.EncodeToString(sum[:8])
	last := &rs.Tables[len(rs.Tables)-1]
	last.Chains = append(last.Chains, Chain{stampChain, []string{
		fmt.Sprintf("-m comment --comment %q -j RETURN", stampPrefix+rs.Stamp),
	}})
	return rs
}

// String returns input for iptables-restore --noflush on a host that has none of the
// jumps: it makes the chains, empties those that are there, fills them, and inserts
// the jumps at the head.
func (rs Ruleset) String() string {
	var b strings.Builder
	for _, t := range rs.Tables {
		var inserts []string
		for _, from := range t.jumpOrigins() {
			inserts = append(inserts, t.inserts(from)...)
		}
		t.write(&b, inserts)
	}
	return b.String()
}

// jumpOrigins returns the built-in chains that have jumps, in order.
func (t Table) jumpOrigins() []string {
	var froms []string
	for _, j := range t.Jumps {
		if !slices.Contains(froms, j.From) {
			froms = append(froms, j.From)
		}
	}
	return froms
}

// jumpsFrom returns the jumps from a built-in chain, in order.
func (t Table) jumpsFrom(from string) []Jump {
	var jumps []Jump
	for _, j := range t.Jumps {
		if j.From == from {
			jumps = append(jumps, j)
		}
	}
	return jumps
}

// inserts returns the lines that put the jumps at the head of a built-in chain.
func (t Table) inserts(from string) []string {
	var lines []string
	for i, j := range t.jumpsFrom(from) {
		lines = append(lines, fmt.Sprintf("-I %s %d %s", from, i+1, j.rule()))
	}
	return lines
}

// write writes the table: its chains, and then the lines of edits.
func (t Table) write(b *strings.Builder, edits []string) {
	fmt.Fprintf(b, "*%s\n", t.Name)
	for _, c := range t.Chains {
		fmt.Fprintf(b, ":%s - [0:0]\n", c.Name)
	}
	for _, c := range t.Chains {
		for _, rule := range c.Rules {
			fmt.Fprintf(b, "-A %s %s\n", c.Name, rule)
		}
	}
	for _, e := range edits {
		b.WriteString(e)
		b.WriteByte('\n')
	}
	b.WriteString("COMMIT\n")
}

// renderer builds the rules of one family.
type renderer struct {
	flags Flags
	ipv6  bool
	// local matches traffic of pods on this node; empty: no detector.
	local string
}

// frontend matches packets to a member (address, protocol, port) of the set.
func (r renderer) frontend(k ipsetutil.Kind) string { return r.set(k, "dst,dst") }

// frontendFrom matches packets to and from a member (address, protocol, port, source).
func (r renderer) frontendFrom(k ipsetutil.Kind) string { return r.set(k, "dst,dst,src") }

// set matches the fields of a packet against the set.
func (r renderer) set(k ipsetutil.Kind, fields string) string {
	return "-m set --match-set " + k.Name(r.ipv6) + " " + fields
}

// notFrontend matches packets to what is no member.
func (r renderer) notFrontend(k ipsetutil.Kind) string {
	return "-m set ! --match-set " + k.Name(r.ipv6) + " dst,dst"
}

// notLocal is the opposite of local; without a detector it matches everything.
func (r renderer) notLocal() string {
	if r.local == "" {
		return ""
	}
	return "! " + r.local
}

// rule joins the parts of a rule that are not empty.
func rule(parts ...string) string {
	kept := parts[:0:0]
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, " ")
}

// hexMark is a mark as iptables prints it.
func hexMark(m uint32) string { return fmt.Sprintf("%#x", m) }

// marked matches packets whose bits under mask are value.
func marked(value, mask uint32) string {
	return "-m mark --mark " + hexMark(value) + "/" + hexMark(mask)
}

// notMarked matches all others.
func notMarked(value, mask uint32) string {
	return "-m mark ! --mark " + hexMark(value) + "/" + hexMark(mask)
}

// setMark sets the bits under mask to value.
func setMark(value, mask uint32) string {
	return "-j MARK --set-xmark " + hexMark(value) + "/" + hexMark(mask)
}

// isNew matches the packets that begin a connection. Established ones survive a
// frontend's change.
const isNew = "-m conntrack --ctstate NEW"
