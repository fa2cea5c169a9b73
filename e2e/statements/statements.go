// Package statements is the list of what a Service proxy has to do: 128 numbered
// sentences, each with the tests that hold the product to it and with what the real
// kube-proxy did when it was asked the same (see e2e/judge). The numbers are those in
// the names of tests, as in TestStatement07EndpointReachesItself.
//
// Beside it is the list of field reports: what went wrong with such proxies, told by what
// is right instead, with letters and numbers as in TestCaseB2PortLikeALocalNodePort.
//
// The lists are list.txt and cases.txt, and api.txt has the tests that no real API server
// lets ask. The tests of this package keep them, the tests
// they name and the tables of e2e/README.md together; with -update they write the tables.
package statements

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Count is how many statements there are, numbered from 1.
const Count = 128

// Packets in Tests stands for the tests in e2e/packets that have the number in their
// name; all other entries are "folder.TestName".
const Packets = "packets"

// The verdicts.
const (
	Holds    = "ok"
	Fails    = "no"
	Useless  = "n/a" // asked, but that run could not tell: the note says why
	NotAsked = "-"
)

// Statement is a line of the list.
type Statement struct {
	Number   int
	Tests    []string // where the product is held to it; nil: nowhere yet
	API      string   // verdict on ours where a real API server has the objects
	IPTables string   // verdict on kube-proxy --proxy-mode=iptables
	NFTables string   // verdict on kube-proxy --proxy-mode=nftables
	Wording  string
	Note     string // where we and kube-proxy differ, and who is right; may be empty
}

//go:embed list.txt
var list string

// All parses the list, in its order.
func All() ([]Statement, error) {
	var all []Statement
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		s, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("list.txt: %q: %w", line, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func parse(line string) (Statement, error) {
	const fields = 7
	f := strings.Split(line, "|")
	if len(f) != fields {
		return Statement{}, fmt.Errorf("%d fields, want %d", len(f), fields)
	}
	for i := range f {
		f[i] = strings.TrimSpace(f[i])
	}
	n, err := strconv.Atoi(f[0])
	if err != nil {
		return Statement{}, err
	}
	s := Statement{Number: n, API: f[2], IPTables: f[3], NFTables: f[4], Wording: f[5], Note: f[6]}
	if f[1] != "-" {
		s.Tests = strings.Fields(f[1])
	}
	return s, nil
}

var name = regexp.MustCompile(`^TestStatement([0-9]+(?:And[0-9]+)*)`)

// Numbers are the statements that a test's name tells, none if it tells none:
// TestStatement34And39Zone is of 34 and 39.
func Numbers(test string) []int {
	m := name.FindStringSubmatch(test)
	if m == nil {
		return nil
	}
	var numbers []int
	for text := range strings.SplitSeq(m[1], "And") {
		if n, err := strconv.Atoi(text); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}
