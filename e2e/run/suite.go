package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// The build tags of the tests that are run here.
const (
	kernelTag = "kernel"
	peersTag  = "peers"
)

// suite is a package's tests of the build tag kernel.
type suite struct {
	Package string   // import path
	Dir     string   // the package's folder, where its tests run
	Binary  string   // the compiled tests
	Tests   []string // top-level names; the package's plain tests are not repeated
}

// name is the suite's file name.
func (s suite) name() string { return strings.ReplaceAll(s.Package, "/", "_") }

// plan is what the inside is told, as JSON.
type plan struct {
	Suites  []suite
	VM      string        // e2e/vm, to make each suite's namespaces
	Bin     string        // the project's executables, for the tests (BIN)
	Env     []string      // KEY=VALUE more for the tests
	Direct  bool          // the suites run in the machine's own namespaces
	Verbose bool          // show all output, not only that of failures
	Timeout time.Duration // for one suite
}

// listed is what is needed of "go list -json".
type listed struct {
	ImportPath, Dir           string
	TestGoFiles, XTestGoFiles []string
}

// findSuites lists the packages with tests that only the build tags with bring,
// compared with the tags without, and whose names match.
func findSuites(patterns []string, filter *regexp.Regexp, with, without string) ([]suite, error) {
	plain, err := list(patterns, without)
	if err != nil {
		return nil, err
	}
	tagged, err := list(patterns, with)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, p := range plain {
		for _, f := range append(p.TestGoFiles, p.XTestGoFiles...) {
			seen[filepath.Join(p.Dir, f)] = true
		}
	}
	var suites []suite
	for _, p := range tagged {
		s := suite{Package: p.ImportPath, Dir: p.Dir}
		for _, f := range append(p.TestGoFiles, p.XTestGoFiles...) {
			file := filepath.Join(p.Dir, f)
			if seen[file] {
				continue
			}
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			names, err := testNames(file, text)
			if err != nil {
				return nil, err
			}
			s.Tests = append(s.Tests, names...)
		}
		s.Tests = slices.DeleteFunc(s.Tests, func(n string) bool { return !filter.MatchString(n) })
		if len(s.Tests) > 0 {
			suites = append(suites, s)
		}
	}
	return suites, nil
}

func list(patterns []string, tags string) ([]listed, error) {
	cmd := exec.Command("go", append([]string{"list", "-tags", tags, "-json=ImportPath,Dir,TestGoFiles,XTestGoFiles"}, patterns...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, stderr.String())
	}
	var all []listed
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
}

// testNames gives the test functions of a file, as "go test" knows them.
func testNames(file string, text []byte) ([]string, error) {
	f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if ok && fn.Recv == nil && isTest(fn.Name.Name) && len(fn.Type.Params.List) == 1 {
			names = append(names, fn.Name.Name)
		}
	}
	return names, nil
}

// isTest follows "go help testfunc": TestX, where X does not start with a
// lower case letter. TestMain runs the others and is none.
func isTest(name string) bool {
	rest, ok := strings.CutPrefix(name, "Test")
	if !ok || name == "TestMain" {
		return false
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return rest == "" || !unicode.IsLower(r)
}
