package statements

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Results are the outcomes of tests that were run: name of the test, passed.
type Results map[string]bool

// ours sums up what a run says of each statement: "ok" when all its tests passed, "FAIL"
// when one did not.
func (r Results) ours() map[int]string {
	sum := map[int]string{}
	for test, passed := range r {
		for _, n := range Numbers(test) {
			switch {
			case !passed:
				sum[n] = "FAIL"
			case sum[n] == "":
				sum[n] = "ok"
			}
		}
	}
	return sum
}

// WriteTable writes one line for each statement: its number, what the run says of the
// proxy under test ("-": no test of the run has the number), the recorded verdicts on
// kube-proxy in iptables and nftables mode, and the wording; without whole only those
// that the run asked. A run that asked none gets no table.
func WriteTable(w io.Writer, r Results, whole bool) error {
	all, err := All()
	if err != nil {
		return err
	}
	var b strings.Builder
	ours := r.ours()
	if len(ours) == 0 {
		return nil
	}
	counts := map[string]int{}
	line := func(number any, now, iptables, nftables, wording string) {
		fmt.Fprintf(&b, "%4v  %-4s  %-8s  %-8s  %s\n", number, now, iptables, nftables, wording)
	}
	line("", "here", "iptables", "nftables", "statement (recorded: kube-proxy v1.37.2)")
	for _, s := range all {
		now := ours[s.Number]
		if now == "" {
			now = "-"
		}
		counts[now]++
		if !whole && now == "-" {
			continue
		}
		line(s.Number, now, s.IPTables, s.NFTables, s.Wording)
	}
	fmt.Fprintf(&b, "statements in this run: %d ok, %d FAIL, %d not asked\n", counts["ok"], counts["FAIL"], counts["-"])
	_, err = io.WriteString(w, b.String())
	return err
}

// Markdown is the table of e2e/README.md, and below it the notes.
func Markdown(all []Statement) string {
	var b strings.Builder
	b.WriteString("| | statement | ours | API | iptables | nftables | tested |\n|---:|---|:---:|:---:|:---:|:---:|---|\n")
	for _, s := range all {
		fmt.Fprintf(&b, "| %d | %s | %s | %s | %s | %s | %s |\n", s.Number, s.Wording, s.ours(), s.API, s.IPTables, s.NFTables, s.where())
	}
	return b.String()
}

// Differences are the notes, for e2e/README.md.
func Differences(all []Statement) string {
	var b strings.Builder
	b.WriteString("| | note |\n|---:|---|\n")
	for _, s := range all {
		if s.Note != "" {
			fmt.Fprintf(&b, "| %d | %s |\n", s.Number, s.Note)
		}
	}
	return b.String()
}

// ours is the verdict on the product: what its tests hold it to, since "make test" fails
// when one does not pass.
func (s Statement) ours() string {
	if len(s.Tests) == 0 {
		return Fails
	}
	return Holds
}

// where names the folders of a statement's tests, and the tests that the number does
// not find.
func (s Statement) where() string {
	if len(s.Tests) == 0 {
		return "see the note"
	}
	var places []string
	for _, test := range s.Tests {
		folder, name, _ := strings.Cut(test, ".")
		if folder == Packets || slices.Contains(Numbers(name), s.Number) {
			name = ""
		}
		places = append(places, strings.TrimSpace(folder+" "+strings.TrimPrefix(name, "Test")))
	}
	return strings.Join(slices.Compact(places), ", ")
}
