package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDemoExcerpt: the README's excerpt has the words of the demo. Addresses and times are
// those of one run of "make demo", which takes half a minute and is not repeated here; who
// must answer is what the packet tests hold.
func TestDemoExcerpt(t *testing.T) {
	text, err := os.ReadFile(root + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, ok := strings.Cut(string(text), "From the demo")
	if !ok {
		t.Fatal("no excerpt")
	}
	excerpt := strings.Split(after, "```")[1]
	files, err := filepath.Glob(root + "/e2e/demo/*.go")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	source := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
	}
	gaps := regexp.MustCompile(` {2,}`)
	fixed := regexp.MustCompile(`[^0-9(]+`)
	checked := 0
	for line := range strings.SplitSeq(strings.Trim(excerpt, "\n"), "\n") {
		columns := gaps.Split(strings.TrimSpace(strings.TrimPrefix(line, "== ")), -1)
		for _, words := range fixed.FindAllString(columns[len(columns)-1], 1) {
			checked++
			if words = strings.TrimSpace(words); !strings.Contains(source, words) {
				t.Errorf("the demo does not say %q: %s", words, line)
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d lines checked", checked)
	}
}
