package statements

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var caseID = regexp.MustCompile(`^[A-MX][1-9][0-9]*$`)

func cases(t *testing.T) []Case {
	t.Helper()
	list, err := Cases()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// casesNamed finds the tests of all packages that tell cases in their names, by folder.
func casesNamed(t *testing.T) map[string][]string {
	t.Helper()
	folders := map[string][]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err == nil {
			folders[folder] = nil
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for folder := range folders {
		folders[folder] = slices.DeleteFunc(testsOf(t, folder), func(name string) bool { return IDs(name) == nil })
	}
	return folders
}

// TestCasesAreWhole: every id once, with a wording; a test that names a case names one of
// the list, and the list names tests that exist.
func TestCasesAreWhole(t *testing.T) {
	known := map[string]bool{}
	for _, c := range cases(t) {
		if known[c.ID] || !caseID.MatchString(c.ID) {
			t.Errorf("%q is there twice or is no id", c.ID)
		}
		known[c.ID] = true
		if !strings.HasSuffix(c.Wording, ".") {
			t.Errorf("%s: the wording %q is no sentence", c.ID, c.Wording)
		}
		for _, test := range c.Tests {
			folder, name, ok := strings.Cut(test, ".")
			if !ok || !slices.Contains(testsOf(t, folder), name) {
				t.Errorf("%s: there is no test %s", c.ID, test)
			}
			if slices.Contains(IDs(name), c.ID) {
				t.Errorf("%s: %s is found by its name", c.ID, test)
			}
		}
	}
	for folder, tests := range casesNamed(t) {
		for _, test := range tests {
			for _, id := range IDs(test) {
				if !known[id] {
					t.Errorf("%s.%s: there is no case %s", folder, test, id)
				}
			}
		}
	}
}

func TestIDs(t *testing.T) {
	for name, want := range map[string][]string{
		"TestCaseA1AndA3AddressOfAnotherNode": {"A1", "A3"}, "TestCaseX10": {"X10"}, "TestCaseB7AndMore": {"B7"},
		"TestCasesAreWhole": nil, "TestStatement07EndpointReachesItself": nil, "TestCaseZ1": nil,
	} {
		if got := IDs(name); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestWriteCases(t *testing.T) {
	write := func(r Results, whole bool) []string {
		t.Helper()
		var b strings.Builder
		if err := WriteCases(&b, r, whole); err != nil {
			t.Fatal(err)
		}
		return strings.Split(b.String(), "\n")
	}
	alias := "TestStatement46LoadBalancer" // of L3
	results := Results{"TestCaseA1AndA3X": true, "TestCaseA3Y": false, alias: true, "TestOther": false}
	want := []string{"  A1  ok ", "  A3  FAIL ", "  L3  ok ", "field reports in this run: 2 ok, 1 FAIL, "}
	lines := write(results, false)
	if len(lines) != len(want)+2 {
		t.Fatalf("of those asked: %q", lines)
	}
	for i, w := range want {
		if !strings.HasPrefix(lines[i+1], w) {
			t.Errorf("line %d is %q, want %q...", i+1, lines[i+1], w)
		}
	}
	if got := write(Results{"TestOther": true}, true); len(got) != 1 {
		t.Errorf("of none: %q", got)
	}
	if got, all := write(results, true), len(cases(t)); len(got) != all+3 {
		t.Errorf("the whole table has %d lines, want %d", len(got), all+3)
	}
}

func TestWhereOfACase(t *testing.T) {
	named := map[string][]string{"e2e/packets": {"TestCaseA1AndA3X"}, "proxier": {"TestCaseA3Y"}, "cmd": {"TestCaseB1"}}
	for want, c := range map[string]Case{
		"packets, proxier": {ID: "A3"}, "not yet": {ID: "A2"}, "of no use": {ID: "A2", Note: "of no use"},
		"packets, plan Golden; note": {ID: "A1", Tests: []string{"plan.TestGolden"}, Note: "note"},
		"packets Statement 7":        {ID: "A2", Tests: []string{"e2e/packets.TestStatement07Itself"}},
	} {
		if got := c.where(named); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}
