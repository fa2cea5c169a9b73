package plan_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// TestGolden plans each Service in testdata and compares what it wants with the
// text beneath. A file holds cases: "-- NAME --", the world, "-- wants --", the plan.
// Lines before the first case belong to every case of the file.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files in testdata (error %v)", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { golden(t, file) })
	}
}

func golden(t *testing.T, file string) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	common, sections := split(string(text))
	var out strings.Builder
	out.WriteString(common)
	for i := 0; i+1 < len(sections); i += 2 {
		in, want := sections[i], sections[i+1]
		if want.name != "wants" {
			t.Fatalf("%s: section %q follows %q, not \"wants\"", file, want.name, in.name)
		}
		out.WriteString("-- " + in.name + " --\n" + in.body + "-- wants --\n")
		t.Run(in.name, func(t *testing.T) {
			got := parseWorld(t, common+in.body).plan()
			out.WriteString(got)
			if diff := cmp.Diff(want.body, got); diff != "" && !*update {
				t.Errorf("%s wants another plan (-file +plan):\n%s", in.name, diff)
			}
		})
		out.WriteString("\n")
	}
	if len(sections)%2 != 0 {
		t.Fatalf("%s: the last case has no \"wants\"", file)
	}
	if *update {
		if err := os.WriteFile(file, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

type section struct{ name, body string }

// split cuts a golden file at its marker lines; blank lines at the end of a section
// are for the eye.
func split(text string) (common string, sections []section) {
	current := &common
	for line := range strings.Lines(text) {
		name, ok := strings.CutPrefix(strings.TrimSpace(line), "-- ")
		if name, ends := strings.CutSuffix(name, " --"); ok && ends {
			sections = append(sections, section{name: name})
			current = &sections[len(sections)-1].body
			continue
		}
		*current += line
	}
	for i := range sections {
		sections[i].body = strings.TrimRight(sections[i].body, "\n") + "\n"
	}
	return common, sections
}
