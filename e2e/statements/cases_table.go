package statements

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// packetFolder has the tests whose outcomes a run of the packet tests tells.
const packetFolder = "e2e/packets"

// ofCase sums up what a run says of a case: "ok" when all its tests that ran passed,
// "FAIL" when one did not, NotAsked without any.
func (r Results) ofCase(c Case) string {
	sum := NotAsked
	for test, passed := range r {
		if !slices.Contains(IDs(test), c.ID) && !slices.Contains(c.Tests, packetFolder+"."+test) {
			continue
		}
		if !passed {
			return "FAIL"
		}
		sum = Holds
	}
	return sum
}

// WriteCases writes one line for each case: its id, what the run says of it ("-": no
// test of the run shows it) and what is right; without whole only those that the run
// asked. A run that asked none gets no table.
func WriteCases(w io.Writer, r Results, whole bool) error {
	all, err := Cases()
	if err != nil {
		return err
	}
	var b strings.Builder
	counts := map[string]int{}
	fmt.Fprintf(&b, "%4s  %-4s  %s\n", "", "here", "field report: what is right")
	for _, c := range all {
		now := r.ofCase(c)
		counts[now]++
		if whole || now != NotAsked {
			fmt.Fprintf(&b, "%4s  %-4s  %s\n", c.ID, now, c.Wording)
		}
	}
	if counts[NotAsked] == len(all) {
		return nil
	}
	fmt.Fprintf(&b, "field reports in this run: %d ok, %d FAIL, %d not asked\n", counts[Holds], counts["FAIL"], counts[NotAsked])
	_, err = io.WriteString(w, b.String())
	return err
}

// CasesMarkdown is the table of e2e/README.md; named has the tests of each folder that
// tell cases in their names.
func CasesMarkdown(all []Case, named map[string][]string) string {
	var b strings.Builder
	b.WriteString("| | what is right | tested |\n|---|---|---|\n")
	for _, c := range all {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", c.ID, c.Wording, c.where(named))
	}
	return b.String()
}

// where names the folders of tests with the case's id, then its other tests and the note.
func (c Case) where(named map[string][]string) string {
	var places []string
	for folder, tests := range named {
		if slices.ContainsFunc(tests, func(t string) bool { return slices.Contains(IDs(t), c.ID) }) {
			places = append(places, strings.TrimPrefix(folder, "e2e/"))
		}
	}
	slices.Sort(places)
	for _, test := range c.Tests {
		folder, name, _ := strings.Cut(test, ".")
		for _, n := range Numbers(name) {
			name = fmt.Sprintf("Statement %d", n)
		}
		places = append(places, strings.TrimPrefix(folder, "e2e/")+" "+strings.TrimPrefix(name, "Test"))
	}
	text := strings.Join(places, ", ")
	switch {
	case text == "" && c.Note == "":
		return "not yet"
	case text == "":
		return c.Note
	case c.Note != "":
		return text + "; " + c.Note
	}
	return text
}
