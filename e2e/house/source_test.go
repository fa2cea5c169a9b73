package house

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	maxFileLines     = 399
	maxFunctionLines = 60
)

// valuesOf says which names of a package are mere values, so that pure packages may
// use them: times but not the clock, error numbers but not calls.
var valuesOf = map[string]*regexp.Regexp{
	"time":    regexp.MustCompile("^(Time|Duration|Nanosecond|Microsecond|Millisecond|Second|Minute|Hour)$"),
	"syscall": regexp.MustCompile("^(Errno|E[A-Z0-9]+)$"),
}

// TestSources holds sizes, comments and pureness of every file that is no test,
// whatever its module and build tags.
func TestSources(t *testing.T) {
	root := "../.."
	documented := map[string]bool{} // folder: its package has a comment
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		files++
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		where, _ := filepath.Rel(root, path)
		dir := filepath.Dir(where)
		problems, hasDoc := sourceProblems(filepath.ToSlash(dir), text)
		documented[dir] = documented[dir] || hasDoc
		for _, p := range problems {
			t.Errorf("%s:%s", where, p)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for dir, ok := range documented {
		if !ok {
			t.Errorf("%s: the package has no comment", dir)
		}
	}
	if files == 0 {
		t.Error("no Go file found")
	}
}

// sourceProblems returns what is wrong with one file, each with its line, and
// whether it has the package's comment.
func sourceProblems(dir string, text []byte) (problems []string, hasDoc bool) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return []string{err.Error()}, false
	}
	report := func(pos token.Pos, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("%d: ", set.Position(pos).Line)+fmt.Sprintf(format, args...))
	}
	if lines := strings.Count(string(text), "\n"); lines > maxFileLines {
		report(file.End(), "the file has %d lines, at most %d", lines, maxFileLines)
	}
	for _, decl := range file.Decls {
		if function, ok := decl.(*ast.FuncDecl); ok {
			lines := set.Position(function.End()).Line - set.Position(function.Pos()).Line + 1
			if lines > maxFunctionLines {
				report(function.Pos(), "%s has %d lines, at most %d", function.Name.Name, lines, maxFunctionLines)
			}
		}
		for _, name := range undocumented(decl) {
			report(name.Pos(), "%s is exported and has no comment", name.Name)
		}
	}
	if slices.Contains(pure, dir) {
		for _, use := range impure(file) {
			report(use.Pos(), "the package is pure, but uses %s.%s", use.X, use.Sel)
		}
	}
	return problems, file.Doc != nil
}

// undocumented returns the exported names of a declaration that no comment
// explains. The comment of a group of values explains each of them.
func undocumented(decl ast.Decl) []*ast.Ident {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && d.Doc == nil && (d.Recv == nil || receiver(d).IsExported()) {
			return []*ast.Ident{d.Name}
		}
	case *ast.GenDecl:
		var names []*ast.Ident
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() && s.Doc == nil && d.Doc == nil {
					names = append(names, s.Name)
				}
			case *ast.ValueSpec:
				for _, name := range s.Names {
					if name.IsExported() && s.Doc == nil && s.Comment == nil && d.Doc == nil {
						names = append(names, name)
					}
				}
			}
		}
		return names
	}
	return nil
}

// receiver is the name of a method's type.
func receiver(d *ast.FuncDecl) *ast.Ident {
	for expr := d.Recv.List[0].Type; ; {
		switch e := expr.(type) {
		case *ast.StarExpr:
			expr = e.X
		case *ast.IndexExpr:
			expr = e.X
		case *ast.IndexListExpr:
			expr = e.X
		case *ast.Ident:
			return e
		default:
			return ast.NewIdent("_")
		}
	}
}

// impure returns the uses of packages that have values, of what is no value.
func impure(file *ast.File) []*ast.SelectorExpr {
	var uses []*ast.SelectorExpr
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, ok := selector.X.(*ast.Ident)
		if !ok {
			return true
		}
		if values, ok := valuesOf[x.Name]; ok && !values.MatchString(selector.Sel.Name) {
			uses = append(uses, selector)
		}
		return true
	})
	return uses
}

// TestSourceRulesBite shows each rule an offence.
func TestSourceRulesBite(t *testing.T) {
	const head = "// Package p is a package.\npackage p\n"
	for _, test := range []struct {
		name, dir, text string
		want            string // part of the only problem; "" for none
	}{
		{"documented", "p", head + "// F does.\nfunc F() {}\n// T is.\ntype T int\n// M does.\nfunc (t *T) M() {}\n", ""},
		{"function", "p", head + "func F() {}\n", "3: F is exported"},
		{"method", "p", head + "// T is.\ntype T int\nfunc (t *T) M() {}\n", "M is exported"},
		{"method of a generic type", "p", head + "// T is.\ntype T[K any] int\nfunc (t *T[K]) M() {}\n", "M is exported"},
		{"method of a private type", "p", head + "type t int\nfunc (t) M() {}\n", ""},
		{"type", "p", head + "type T int\n", "T is exported"},
		{"constant", "p", head + "const C = 1\n", "C is exported"},
		{"group of constants", "p", head + "// All of them.\nconst (\n\tA = 1\n\tB = 2\n)\n", ""},
		{"constant with a comment behind", "p", head + "const (\n\tA = 1 // is one\n)\n", ""},
		{"long file", "p", head + strings.Repeat("//\n", maxFileLines), "lines, at most 399"},
		{"file at the limit", "p", head + strings.Repeat("//\n", maxFileLines-2), ""},
		{"long function", "p", head + "func f() {\n" + strings.Repeat("\n", maxFunctionLines-1) + "}\n", "f has 61 lines"},
		{"function at the limit", "p", head + "func f() {\n" + strings.Repeat("\n", maxFunctionLines-2) + "}\n", ""},
		{"clock", "proxier/plan", head + "import \"time\"\nvar now = time.Now\n", "time.Now"},
		{"time as a value", "proxier/plan", head + "import \"time\"\nvar t time.Time\n", ""},
		{"call", "ipvsutil", head + "import \"syscall\"\nvar kill = syscall.Kill\n", "syscall.Kill"},
		{"error number", "ipvsutil", head + "import \"syscall\"\nvar err error = syscall.EINVAL\n", ""},
		{"clock elsewhere", "proxier", head + "import \"time\"\nvar now = time.Now\n", ""},
		{"no Go", "p", "packet p", "expected 'package'"},
	} {
		problems, _ := sourceProblems(test.dir, []byte(test.text))
		if test.want == "" && len(problems) > 0 || test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.want)) {
			t.Errorf("%s: problems %q, want %q", test.name, problems, test.want)
		}
	}
	if _, hasDoc := sourceProblems("p", []byte("package p\n")); hasDoc {
		t.Error("a package without a comment passes")
	}
}
