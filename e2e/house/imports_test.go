package house

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "kube-ipvs-proxy"

// everything lets a package import everything of ours.
const everything = "*"

// directions says what of ours each package may import, besides the packages beneath
// itself. Arrows run one way: watch, plan, ledger, reconcile, then the doors. The
// longest path that fits a package counts.
var directions = map[string][]string{
	"cmd":                  {everything},
	"e2e":                  {everything},
	"proxier":              {"proxier/watch", "proxier/plan", "proxier/ledger", "proxier/reconcile", "proxier/health", "ipvsutil", "ipsetutil"},
	"proxier/config":       {},
	"proxier/watch":        {"proxier/plan", "ipvsutil"},
	"proxier/plan":         {"ipvsutil", "ipsetutil"},
	"proxier/ledger":       {"proxier/plan", "ipvsutil", "ipsetutil"},
	"proxier/explain":      {"proxier/plan", "proxier/ledger", "ipvsutil", "ipsetutil"},
	"proxier/reconcile":    {"proxier/ledger", "proxier/plan", "ipvsutil", "ipsetutil"},
	"proxier/netfilter":    {"ipvsutil", "ipsetutil", "ipvsutil/netlink"},
	"proxier/health":       {},
	"proxier/host":         {"ipvsutil", "ipvsutil/netlink"},
	"proxier/reserve":      {"ipsetutil"},
	"proxier/forward":      {},
	"ipvsutil":             {},
	"ipvsutil/netlink":     {},
	"ipvsutil/kernel":      {"ipvsutil", "ipvsutil/netlink"},
	"ipvsutil/fake":        {"ipvsutil"},
	"ipvsutil/conformance": {"ipvsutil"},
	"ipsetutil":            {},
	"ipsetutil/kernel":     {"ipsetutil", "ipvsutil/netlink"},
	"ipsetutil/fake":       {"ipsetutil"},

	"ipsetutil/conformance": {"ipsetutil"},
}

// pure packages compute: no network, process, file, clock or Kubernetes client.
var pure = []string{"proxier/plan", "proxier/ledger", "proxier/explain", "ipvsutil", "ipsetutil"}

// pureImports is what they may import of the standard library; of some packages
// only the values (valuesOf).
var pureImports = []string{
	"cmp", "context", "errors", "fmt", "io/fs", "iter", "maps", "net/netip", "slices", "strings", "syscall", "time",
}

// listed is what is needed of "go list -json".
type listed struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
	Error        *struct{ Err string }
}

// ours is the path within the module.
func ours(path string) (string, bool) {
	return strings.CutPrefix(path, module+"/")
}

// list loads the packages of the module, with the tests of all tags.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.Command("go", "list", "-tags", "kernel", "-deps",
		"-json=ImportPath,Imports,TestImports,XTestImports,Deps,Error", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		t.Fatalf("go list: %v", err)
	}
	var packages []listed
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		if _, ok := ours(p.ImportPath); ok {
			packages = append(packages, p)
		}
	}
	if len(packages) < len(pure) {
		t.Fatalf("go list knows %d packages of %s", len(packages), module)
	}
	return packages
}

// TestImports holds directions, doors and pureness of every package.
func TestImports(t *testing.T) {
	for _, p := range list(t) {
		for _, problem := range importProblems(p) {
			t.Errorf("%s: %s", p.ImportPath, problem)
		}
	}
}

func importProblems(p listed) []string {
	var problems []string
	if p.Error != nil {
		problems = append(problems, p.Error.Err)
	}
	name, _ := ours(p.ImportPath)
	may, ok := allowed(name)
	if !ok {
		problems = append(problems, "the house has no room of that name: give it one in directions")
	}
	for _, path := range p.Imports {
		imported, ok := ours(path)
		if ok && !mayImport(name, imported, may) {
			problems = append(problems, "imports "+path+", against the direction of the house")
		}
		if ok && testOnly(imported) {
			problems = append(problems, "imports "+path+", which is for tests")
		}
	}
	for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
		if imported, ok := ours(path); ok && isKernel(imported) && !speaksToKernel(name) {
			problems = append(problems, "imports "+path+", which only cmd and e2e may")
		}
	}
	if slices.Contains(pure, name) {
		problems = append(problems, pureProblems(p)...)
	}
	return problems
}

// allowed returns the imports of the longest path in directions that holds name.
func allowed(name string) (may []string, ok bool) {
	for path := name; path != ""; path = parent(path) {
		if may, ok := directions[path]; ok {
			return may, true
		}
	}
	return nil, false
}

func parent(path string) string {
	return path[:max(0, strings.LastIndexByte(path, '/'))]
}

func mayImport(name, imported string, may []string) bool {
	return slices.Contains(may, everything) || slices.Contains(may, imported) || strings.HasPrefix(imported, name+"/") &&
		!isKernel(imported)
}

func isKernel(path string) bool { return strings.HasSuffix(path, "/kernel") }

func testOnly(path string) bool {
	return strings.HasSuffix(path, "/fake") || strings.HasSuffix(path, "/conformance")
}

// speaksToKernel tells the packages that may construct a door to the kernel.
func speaksToKernel(name string) bool {
	return strings.HasPrefix(name, "cmd/") || strings.HasPrefix(name, "e2e/") || isKernel(name)
}

// pureProblems looks at the direct imports for what is not on the list, and at all
// that comes with them for what must not come in by a detour.
func pureProblems(p listed) []string {
	var problems []string
	for _, path := range p.Imports {
		if _, ok := ours(path); !ok && !slices.Contains(pureImports, path) {
			problems = append(problems, "is pure, but imports "+path)
		}
	}
	for _, path := range p.Deps {
		domain, _, _ := strings.Cut(path, "/")
		if path == "net" || path == "os/exec" || strings.Contains(domain, ".") {
			problems = append(problems, "is pure, but depends on "+path)
		}
	}
	return problems
}

// TestImportRulesBite shows each rule an offence.
func TestImportRulesBite(t *testing.T) {
	for _, test := range []struct {
		name, imports, tests string
		want                 string // part of the only problem; "" for none
	}{
		{"proxier/plan", module + "/ipvsutil", "", ""},
		{"proxier/plan", module + "/proxier/ledger", "", "direction"},
		{"proxier/plan", "os", "", "pure, but imports os"},
		{"ipvsutil", "net", "", "pure, but imports net"},
		{"proxier/ledger", "k8s.io/client-go", "", "pure, but imports k8s.io/client-go"},
		{"proxier/watch", "k8s.io/client-go", "", ""},
		{"proxier/reconcile", module + "/proxier/watch", "", "direction"},
		{"proxier/health/http", module + "/proxier/health", "", "direction"},
		{"proxier/health", module + "/proxier/health/http", "", ""},
		{"proxier/reconcile", "", module + "/ipvsutil/kernel", "only cmd and e2e"},
		{"proxier/reconcile", "", module + "/ipvsutil/fake", ""},
		{"cmd/kube-ipvs-proxy", module + "/ipvsutil/kernel", "", ""},
		{"cmd/kube-ipvs-proxy", module + "/ipvsutil/fake", "", "for tests"},
		{"e2e/testbed", module + "/ipsetutil/conformance", "", "for tests"},
		{"ipsetutil/kernel", module + "/ipvsutil/netlink", module + "/ipsetutil/conformance", ""},
		{"pkg/util", "", "", "no room"},
	} {
		p := listed{ImportPath: module + "/" + test.name, Imports: strings.Fields(test.imports), TestImports: strings.Fields(test.tests)}
		problems := importProblems(p)
		if test.want == "" && len(problems) > 0 || test.want != "" && (len(problems) != 1 || !strings.Contains(problems[0], test.want)) {
			t.Errorf("%s that imports %q (tests: %q) has problems %q, want %q", test.name, test.imports, test.tests, problems, test.want)
		}
	}
	detour := listed{ImportPath: module + "/proxier/plan", Deps: []string{"fmt", "os", "net"}}
	if problems := importProblems(detour); len(problems) != 1 || !strings.Contains(problems[0], "depends on net") {
		t.Errorf("a detour to the network is %q", problems)
	}
}
