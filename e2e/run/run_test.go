package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestTestNames(t *testing.T) {
	const file = `package p
import "testing"
func TestMain(m *testing.M) {}
func TestOne(t *testing.T) {}
func Test_two(t *testing.T) {}
func Testthree(t *testing.T) {}
func TestHelper() {}
func (x y) TestMethod(t *testing.T) {}
func BenchmarkFour(b *testing.B) {}
func TestÄ(t *testing.T) {}
`
	got, err := testNames("p_test.go", []byte(file))
	if want := []string{"TestOne", "Test_two", "TestÄ"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// TestFindSuites works on a module of its own: only what the tag brings counts.
func TestFindSuites(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":             "module m\n\ngo 1.26.0\n",
		"a/a.go":             "package a\n",
		"a/plain_test.go":    "package a\n\nimport \"testing\"\n\nfunc TestPlain(t *testing.T) {}\n",
		"a/k_test.go":        "//go:build kernel\n\npackage a_test\n\nimport \"testing\"\n\nfunc TestKernel(t *testing.T) {}\n\nfunc TestOther(t *testing.T) {}\n",
		"b/b.go":             "package b\n",
		"b/b_test.go":        "package b\n\nimport \"testing\"\n\nfunc TestPlain(t *testing.T) {}\n",
		"only/only_test.go":  "//go:build kernel\n\npackage only\n\nimport \"testing\"\n\nfunc TestOnly(t *testing.T) {}\n",
		"bench/b_k_test.go":  "//go:build kernel\n\npackage bench\n\nimport \"testing\"\n\nfunc BenchmarkX(b *testing.B) {}\n",
		"helper/h_k_test.go": "//go:build !kernel\n\npackage helper\n\nimport \"testing\"\n\nfunc TestNo(t *testing.T) {}\n",
		"helper/h.go":        "package helper\n",
		"a/p_test.go":        "//go:build kernel && peers\n\npackage a_test\n\nimport \"testing\"\n\nfunc TestPeers(t *testing.T) {}\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	o := options{}
	find := func(filter string) string {
		with, without := o.tags()
		suites, err := findSuites([]string{"./..."}, regexp.MustCompile(filter), with, without)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range suites {
			got = append(got, s.Package+" "+strings.Join(s.Tests, ","))
		}
		return strings.Join(got, "; ")
	}
	if got, want := find(""), "m/a TestKernel,TestOther; m/only TestOnly"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := find("Only|Kern"), "m/a TestKernel; m/only TestOnly"; got != want {
		t.Errorf("filtered: got %q, want %q", got, want)
	}
	o.peers = true
	if got, want := find(""), "m/a TestPeers"; got != want {
		t.Errorf("with peers: got %q, want %q", got, want)
	}
}

// TestAskableByAPI: a packet test that no API server lets ask is left out and told, and
// nothing else is.
func TestAskableByAPI(t *testing.T) {
	var out strings.Builder
	const unasked, asked = "TestStatement17ExternalNameIsNotServed", "TestStatement18ServiceOfAnotherProxy"
	left, err := askableByAPI(&out, []suite{
		{Package: "m/" + packetSuite, Tests: []string{unasked, asked, "TestHostileObjects"}},
		{Package: "m/other", Tests: []string{unasked}},
		{Package: "n/" + packetSuite, Tests: []string{unasked}},
	})
	if err != nil || len(left) != 2 || !slices.Equal(left[0].Tests, []string{asked}) || !slices.Equal(left[1].Tests, []string{unasked}) {
		t.Errorf("left %+v, %v", left, err)
	}
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 3 || !strings.Contains(lines[0], unasked+": the API server takes no such object") {
		t.Errorf("told %q", lines)
	}
}

func TestScanAndCheck(t *testing.T) {
	tests := []string{"TestA", "TestB"}
	for _, c := range []struct {
		name, output string
		want         counts
		fault        string // part of check's error; empty: none
	}{
		{"pass", "=== RUN   TestA\n--- PASS: TestA (0.1s)\n    --- FAIL: TestA/sub\n--- PASS: TestB (0s)\nPASS\n", counts{passed: 2}, ""},
		{"fail", "--- PASS: TestA\n--- FAIL: TestB\n", counts{passed: 1, failed: 1}, "1 of 2 tests failed"},
		{"skipped", "--- PASS: TestA\n--- SKIP: TestB\n", counts{passed: 1, skipped: 1}, "1 tests skipped"},
		{"subtest skipped", "--- PASS: TestA\n    --- SKIP: TestA/x\n--- PASS: TestB\n", counts{passed: 2, skipped: 1}, "1 tests skipped"},
		{"nothing", "testing: warning: no tests to run\nPASS\n", counts{}, "no test ran"},
		{"cut off", "--- PASS: TestA\n=== RUN TestB", counts{passed: 1}, "2 tests to run"},
	} {
		var out bytes.Buffer
		got, err := scan(strings.NewReader(c.output), &out)
		if err != nil || got != c.want || out.String() != c.output {
			t.Errorf("%s: got %+v, %v, output %q", c.name, got, err, out.String())
		}
		err = got.check(tests)
		if (err == nil) != (c.fault == "") || (err != nil && !strings.Contains(err.Error(), c.fault)) {
			t.Errorf("%s: check says %v, want %q", c.name, err, c.fault)
		}
	}
}
