package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"kube-ipvs-proxy/proxier/plan"
)

// width is that of the text in columns, indent where what a step says begins.
const (
	width  = 79
	indent = 12
)

// Text returns the path as lines of at most width columns, where words allow it.
func (p Path) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s", p.Frontend, p.Kind)
	if p.Port != "" {
		fmt.Fprintf(&b, "  port %s", p.Port)
	}
	b.WriteByte('\n')
	line(&b, "from", p.Client)
	for _, s := range p.Steps {
		if last(s) {
			continue
		}
		line(&b, s.Name, s.Text)
		if s.Name == "server" {
			p.endpoints(&b)
		}
	}
	if !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Name == "server" }) {
		p.endpoints(&b)
	}
	for _, s := range p.Steps {
		if last(s) {
			line(&b, s.Name, s.Text)
		}
	}
	p.differences(&b)
	verdict := p.Verdict
	if p.Because != "" {
		verdict += ": " + p.Because
	}
	line(&b, "verdict", verdict)
	return b.String()
}

// last tells steps that come after the endpoints: what the kernel has.
func last(s Step) bool { return slices.Contains([]string{"kernel", "counted", "seen"}, s.Name) }

// most is how many differences are shown; when a node is empty, all differ.
const most = 5

func (p Path) differences(b *strings.Builder) {
	for n, d := range p.Differences {
		if n == most {
			line(b, "", fmt.Sprintf("and %d more: verify shows them all", len(p.Differences)-n))
			break
		}
		name := "differs"
		if d.Fine {
			name = "fine"
		}
		text := d.Kind + " " + d.Object + ": "
		if d.Kind != "rules" {
			text += "want " + d.Want + ", have " + d.Have + ": "
		}
		line(b, name, text+d.Means)
	}
}

func (p Path) endpoints(b *strings.Builder) {
	for _, c := range p.Candidates {
		text := c.Address
		if c.Pod != "" {
			text += " pod " + c.Pod
		}
		if c.Node != "" {
			text += " on " + c.Node
		}
		text += ": " + c.Why
		if c.Active > 0 {
			text += fmt.Sprintf(", %d active connections", c.Active)
		}
		line(b, "endpoint", text)
	}
}

// line writes a name and what it says, broken between words.
func line(b *strings.Builder, name, text string) {
	head := fmt.Sprintf("  %-*s", indent-2, name)
	column := 0
	for _, word := range strings.Fields(text) {
		switch {
		case column == 0:
			b.WriteString(head + word)
			column = indent + len(word)
		case column+1+len(word) > width:
			fmt.Fprintf(b, "\n%*s%s", indent, "", word)
			column = indent + len(word)
		default:
			b.WriteString(" " + word)
			column += 1 + len(word)
		}
	}
	b.WriteByte('\n')
}

// Nearest returns the names most like the wanted one, the most like first: those that
// share its name or have few letters other, at most five.
func Nearest(want plan.ServiceName, all []plan.ServiceName) []plan.ServiceName {
	type scored struct {
		name  plan.ServiceName
		score int
	}
	var list []scored
	for _, n := range all {
		score := edits(want.Name, n.Name)
		if score > 1+len(want.Name)/3 && !strings.Contains(n.Name, want.Name) {
			continue
		}
		if n.Namespace != want.Namespace {
			score += 1 + min(2, edits(want.Namespace, n.Namespace))
		}
		list = append(list, scored{n, score})
	}
	slices.SortFunc(list, func(a, b scored) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.name.String(), b.name.String()))
	})
	var names []plan.ServiceName
	for _, s := range list[:min(5, len(list))] {
		names = append(names, s.name)
	}
	return names
}

// edits counts the letters to insert, delete or replace to get from a to b.
func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := before
			if a[i] != b[j] {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
