package statements

import (
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the tables of e2e/README.md")

const root = "../.."

func all(t *testing.T) []Statement {
	t.Helper()
	list, err := All()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestListIsWhole: every number once and in order, with a wording and known verdicts; a
// verdict that tells nothing or against one of us has a note.
func TestListIsWhole(t *testing.T) {
	list := all(t)
	if len(list) != Count {
		t.Errorf("%d statements, want %d", len(list), Count)
	}
	for i, s := range list {
		if s.Number != i+1 {
			t.Fatalf("line %d is statement %d", i+1, s.Number)
		}
		if !strings.HasSuffix(s.Wording, ".") {
			t.Errorf("%d: the wording %q is no sentence", s.Number, s.Wording)
		}
		for _, verdict := range []string{s.API, s.IPTables, s.NFTables} {
			if !slices.Contains([]string{Holds, Fails, Useless, NotAsked}, verdict) {
				t.Errorf("%d: verdict %q", s.Number, verdict)
			}
			if (verdict == Fails || verdict == Useless) && s.Note == "" {
				t.Errorf("%d: %q without a note", s.Number, verdict)
			}
		}
		if len(s.Tests) == 0 && s.Note == "" {
			t.Errorf("%d: neither a test nor a note", s.Number)
		}
	}
}

// TestListNamesTheTests: each test that has a number in its name is in the list, and the
// list names no other.
func TestListNamesTheTests(t *testing.T) {
	packets := map[int]bool{}
	for _, name := range testsOf(t, "e2e/packets") {
		for _, n := range Numbers(name) {
			packets[n] = true
			if n < 1 || n > Count {
				t.Errorf("%s: there is no statement %d", name, n)
			}
		}
	}
	named := map[string]bool{}
	for _, s := range all(t) {
		if got := slices.Contains(s.Tests, Packets); got != packets[s.Number] {
			t.Errorf("%d: a packet test in the list: %v, in e2e/packets: %v", s.Number, got, packets[s.Number])
		}
		for _, test := range s.Tests {
			named[test] = true
			folder, name, ok := strings.Cut(test, ".")
			if test != Packets && (!ok || !slices.Contains(testsOf(t, folder), name)) {
				t.Errorf("%d: there is no test %s", s.Number, test)
			}
		}
	}
	for _, folder := range []string{"proxier/health", "proxier/netfilter", "proxier/watch", "proxier/config", "cmd/kube-ipvs-proxy"} {
		for _, name := range testsOf(t, folder) {
			if Numbers(name) != nil && !named[folder+"."+name] {
				t.Errorf("%s.%s is not in the list", folder, name)
			}
		}
	}
}

// testsOf are the test functions in a folder, whatever their build tags.
func testsOf(t *testing.T, folder string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, folder, "*_test.go"))
	if err != nil || len(files) == 0 {
		t.Errorf("%s: no tests (%v)", folder, err)
	}
	var names []string
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				names = append(names, fn.Name.Name)
			}
		}
	}
	return names
}

func TestNumbers(t *testing.T) {
	for name, want := range map[string][]int{
		"TestStatement07EndpointReachesItself": {7}, "TestStatement34And39Zone": {34, 39}, "TestStatement26": {26},
		"TestStatement123AndPages": {123}, "TestRefuse": nil, "TestStatements": nil,
	} {
		if got := Numbers(name); !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

func TestWriteTable(t *testing.T) {
	results := Results{
		"TestStatement01A": true, "TestStatement02A": true, "TestStatement02B": false, "TestStatement34And39Zone": true, "TestOther": false,
	}
	write := func(r Results, whole bool) []string {
		t.Helper()
		var b strings.Builder
		if err := WriteTable(&b, r, whole); err != nil {
			t.Fatal(err)
		}
		return strings.Split(b.String(), "\n")
	}
	if got := write(results, false); len(got) != 7 || !strings.HasPrefix(got[3], "  34  ok ") {
		t.Errorf("of those asked: %q", got)
	}
	if got := write(Results{"TestOther": true}, true); len(got) != 1 {
		t.Errorf("of none: %q", got)
	}
	lines := write(results, true)
	for n, want := range map[int]string{
		1: "   1  ok    ok        ok        A pod", 2: "   2  FAIL  ok", 3: "   3  -     ok", 39: "  39  ok    ok",
		128: " 128  -     ok", 129: "statements in this run: 3 ok, 1 FAIL, 124 not asked",
	} {
		if !strings.HasPrefix(lines[n], want) {
			t.Errorf("line %d is %q, want %q...", n, lines[n], want)
		}
	}
}

// TestReadme holds the tables of the README to the list.
func TestReadme(t *testing.T) {
	file := filepath.Join(root, "e2e", "README.md")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	list := all(t)
	unasked, err := UnaskedByName()
	if err != nil {
		t.Fatal(err)
	}
	want := string(text)
	tables := map[string]string{
		"statements": Markdown(list), "differences": Differences(list), "cases": CasesMarkdown(cases(t), casesNamed(t)), "unasked": UnaskedMarkdown(unasked),
	}
	for mark, table := range tables {
		begin, end := "<!-- "+mark+" -->\n", "<!-- end of "+mark+" -->\n"
		before, rest, ok := strings.Cut(want, begin)
		_, after, closed := strings.Cut(rest, end)
		if !ok || !closed {
			t.Fatalf("%s has no marks %q and %q", file, begin, end)
		}
		want = before + begin + table + end + after
	}
	if want == string(text) {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date: go test ./e2e/statements -update", file)
	}
	if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}
