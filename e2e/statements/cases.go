package statements

import (
	_ "embed"
	"fmt"
	"regexp"
	"strings"
)

// Case is a fault that IPVS proxies had in the field, told by what is right instead.
type Case struct {
	ID      string   // letter of the section and number, as in the names of tests
	Tests   []string // "folder.TestName" of tests that show it under another name
	Wording string   // what is right
	Note    string   // what else is to be said, or why no test can show it; may be empty
}

//go:embed cases.txt
var caseList string

// Cases parses the list of the field reports, in its order.
func Cases() ([]Case, error) {
	const fields = 4
	var all []Case
	for line := range strings.Lines(caseList) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(line, "|")
		if len(f) != fields {
			return nil, fmt.Errorf("cases.txt: %q: %d fields, want %d", line, len(f), fields)
		}
		for i := range f {
			f[i] = strings.TrimSpace(f[i])
		}
		c := Case{ID: f[0], Wording: f[2], Note: f[3]}
		if f[1] != "-" {
			c.Tests = strings.Fields(f[1])
		}
		all = append(all, c)
	}
	return all, nil
}

var caseName = regexp.MustCompile(`^TestCase([A-MX][0-9]+(?:And[A-MX][0-9]+)*)`)

// IDs are the cases that a test's name tells, none if it tells none:
// TestCaseA1AndA3AddressOfAnotherNode is of A1 and A3.
func IDs(test string) []string {
	m := caseName.FindStringSubmatch(test)
	if m == nil {
		return nil
	}
	return strings.Split(m[1], "And")
}
