package netfilter

import (
	"strings"
)

// listing is what iptables-save printed: rules by table and chain, in order. A
// table that is not there has no chains.
type listing map[string]*listedTable

type listedTable struct {
	// chains maps a chain's name to its rules, each without "-A NAME". Chains
	// without rules are there with none.
	chains map[string][]string
	// builtin names the chains that have a policy, in order.
	builtin []string
}

// parseListing reads the output of iptables-save. Lines that it does not know, such
// as comments, are passed over.
func parseListing(out string) listing {
	l := listing{}
	var table *listedTable
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "*"); ok {
			table = &listedTable{chains: map[string][]string{}}
			l[name] = table
			continue
		}
		if table == nil {
			continue
		}
		if rest, ok := strings.CutPrefix(line, ":"); ok {
			name, policy, _ := strings.Cut(rest, " ")
			table.chains[name] = nil
			if !strings.HasPrefix(policy, "-") {
				table.builtin = append(table.builtin, name)
			}
		} else if rest, ok := strings.CutPrefix(line, "-A "); ok {
			name, rule, _ := strings.Cut(rest, " ")
			table.chains[name] = append(table.chains[name], rule)
		}
	}
	return l
}

// table returns a table by name, empty when it is not there.
func (l listing) table(name string) *listedTable {
	if t := l[name]; t != nil {
		return t
	}
	return &listedTable{}
}

// stamp returns the stamp of the text that was written last, or "".
func (l listing) stamp() string {
	for _, rule := range l.table(tableFilter).chains[stampChain] {
		for _, word := range words(rule) {
			if stamp, ok := strings.CutPrefix(word, stampPrefix); ok {
				return stamp
			}
		}
	}
	return ""
}

// words splits a rule as iptables prints it: at spaces outside of double quotes,
// with a backslash before a quote or backslash that is meant.
func words(rule string) []string {
	var list []string
	var word strings.Builder
	quoted, begun := false, false
	for i := 0; i < len(rule); i++ {
		switch c := rule[i]; {
		case c == '"':
			quoted, begun = !quoted, true
		case c == '\\' && i+1 < len(rule):
			i++
			word.WriteByte(rule[i])
			begun = true
		case c == ' ' && !quoted:
			if begun {
				list = append(list, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteByte(c)
			begun = true
		}
	}
	if begun {
		list = append(list, word.String())
	}
	return list
}

// target returns the chain or target that a rule leads to, or "".
func target(rule string) string {
	list := words(rule)
	for i, w := range list {
		if i+1 == len(list) {
			break
		}
		switch w {
		case "-j", "-g":
			return list[i+1]
		case "--comment", "--log-prefix", "--nflog-prefix", "--string":
			list[i+1] = "" // free text, whatever it looks like
		}
	}
	return ""
}

// unconditional reports whether a rule is a plain jump: no match but a comment.
func unconditional(rule string) bool {
	list := words(rule)
	for len(list) > 2 {
		if len(list) < 4 || list[0] != "-m" || list[1] != "comment" || list[2] != "--comment" {
			return false
		}
		list = list[4:]
	}
	return len(list) == 2 && list[0] == "-j"
}
