package netfilter

import (
	"fmt"
	"slices"
	"strings"
)

// difference is what a listing has wrong, and the lines that mend it.
type difference struct {
	// found says what is wrong, a line each; empty: nothing is.
	found []string
	// edits are lines for iptables-restore by table, after the chains were emptied
	// and filled: jumps out and in, chains of an earlier proxy removed.
	edits map[string][]string
}

// compare finds what the listing has wrong. Besides the stamp and the number of
// rules of each chain it looks at the jumps. The rules' own text is not compared:
// iptables prints it as it likes.
func (rs Ruleset) compare(l listing) difference {
	d := difference{edits: map[string][]string{}}
	if got := l.stamp(); got != rs.Stamp {
		d.found = append(d.found, fmt.Sprintf("%s: rules %q are wanted, %q are there", familyName(rs.IPv6), rs.Stamp, got))
	}
	for _, t := range rs.Tables {
		o := own(t, l.table(t.Name))
		for _, c := range t.Chains {
			rules, ok := o.listed.chains[c.Name]
			if !ok {
				d.report(rs, t, "chain %s is missing", c.Name)
			} else if len(rules) != len(c.Rules) {
				d.report(rs, t, "chain %s has %d rules, want %d", c.Name, len(rules), len(c.Rules))
			}
		}
		d.compareJumps(rs, o)
		d.compareLeftovers(rs, o)
	}
	return d
}

// report adds a line about a table.
func (d *difference) report(rs Ruleset, t Table, format string, args ...any) {
	d.found = append(d.found, fmt.Sprintf("%s %s: ", familyName(rs.IPv6), t.Name)+fmt.Sprintf(format, args...))
}

// compareJumps looks at each built-in chain that has or should have jumps of ours.
// They must stand at its head, in order and once. When they do not, all are taken
// out, as they are printed, and put in again.
func (d *difference) compareJumps(rs Ruleset, o owned) {
	froms := slices.Clone(o.listed.builtin)
	for _, from := range o.table.jumpOrigins() {
		if !slices.Contains(froms, from) {
			froms = append(froms, from)
		}
	}
	for _, from := range froms {
		if o.jumpsRight(from) {
			continue
		}
		d.report(rs, o.table, "jumps from %s are not as they should be", from)
		d.edits[o.table.Name] = slices.Concat(d.edits[o.table.Name], o.deletions(from), o.table.inserts(from))
	}
}

// compareLeftovers empties and deletes what an earlier proxy left. A chain that a
// foreign rule leads to is emptied only, and is no difference once it is empty.
func (d *difference) compareLeftovers(rs Ruleset, o owned) {
	foreign := o.foreignTargets()
	var empty, remove []string
	for _, name := range o.leftovers {
		if foreign[name] && len(o.listed.chains[name]) == 0 {
			continue
		}
		d.report(rs, o.table, "chain %s of another proxy is there", name)
		empty = append(empty, "-F "+name)
		if !foreign[name] {
			remove = append(remove, "-X "+name)
		}
	}
	d.edits[o.table.Name] = slices.Concat(d.edits[o.table.Name], empty, remove)
}

// input returns the restore input that mends the difference.
func (rs Ruleset) input(d difference) string {
	var b strings.Builder
	for _, t := range rs.Tables {
		t.write(&b, d.edits[t.Name])
	}
	return b.String()
}

// removal returns the restore input that takes everything of ours out of the listing,
// and the chains that stay because a foreign rule leads to them. They are emptied.
// The input is empty when nothing of ours is there.
func (rs Ruleset) removal(l listing) (input string, kept []string) {
	var b strings.Builder
	for _, t := range rs.Tables {
		o := own(t, l.table(t.Name))
		foreign := o.foreignTargets()
		var lines, remove []string
		for _, from := range o.listed.builtin {
			lines = append(lines, o.deletions(from)...)
		}
		for _, name := range o.present() {
			if foreign[name] {
				kept = append(kept, fmt.Sprintf("%s %s %s", familyName(rs.IPv6), t.Name, name))
				if len(o.listed.chains[name]) == 0 {
					continue
				}
			} else {
				remove = append(remove, "-X "+name)
			}
			lines = append(lines, "-F "+name)
		}
		if lines = append(lines, remove...); len(lines) > 0 {
			Table{Name: t.Name}.write(&b, lines)
		}
	}
	return b.String(), kept
}

func familyName(ipv6 bool) string {
	if ipv6 {
		return "IPv6"
	}
	return "IPv4"
}
