package statements

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
)

// Unasked is a packet test that cannot be asked where a real API server has the objects.
type Unasked struct{ Test, Why string }

//go:embed api.txt
var apiList string

// UnaskedByName are those of them that have no statement's number: the list says of a
// statement itself whether it can be asked.
func UnaskedByName() ([]Unasked, error) {
	var all []Unasked
	for line := range strings.Lines(apiList) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		test, why, ok := strings.Cut(line, "|")
		if !ok {
			return nil, fmt.Errorf("api.txt: %q: want a test and why", line)
		}
		all = append(all, Unasked{strings.TrimSpace(test), strings.TrimSpace(why)})
	}
	return all, nil
}

// AskedByAPI parts packet tests into those that can be asked where a real API server has
// the objects and those that cannot: a statement's test cannot where the list has Useless
// for it.
func AskedByAPI(tests []string) (asked []string, not []Unasked, err error) {
	byName, err := UnaskedByName()
	if err != nil {
		return nil, nil, err
	}
	all, err := All()
	if err != nil {
		return nil, nil, err
	}
	for _, test := range tests {
		why := ""
		for _, n := range Numbers(test) {
			if s := all[n-1]; s.API == Useless {
				why = s.Note
			}
		}
		if i := slices.IndexFunc(byName, func(u Unasked) bool { return u.Test == test }); i >= 0 {
			why = byName[i].Why
		}
		if why == "" {
			asked = append(asked, test)
		} else {
			not = append(not, Unasked{test, why})
		}
	}
	return asked, not, nil
}

// UnaskedMarkdown are those without a number, for e2e/README.md.
func UnaskedMarkdown(all []Unasked) string {
	var b strings.Builder
	b.WriteString("| test | why |\n|---|---|\n")
	for _, u := range all {
		fmt.Fprintf(&b, "| `%s` | %s |\n", u.Test, u.Why)
	}
	return b.String()
}
