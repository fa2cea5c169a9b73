package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestShowStatements(t *testing.T) {
	dir := t.TempDir()
	s := suite{Package: "m/e2e/packets", Tests: []string{"TestStatement01A", "TestStatement02A", "TestStatement03A", "TestStatement34And39Z"}}
	show := func(suites ...suite) string {
		t.Helper()
		var out strings.Builder
		if err := showStatements(&out, suites, dir, true); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if got := show(s); got != "" {
		t.Errorf("without a log: %q", got)
	}
	log := "=== RUN   TestStatement01A\n    --- FAIL: TestStatement01A/sub (0.1s)\n--- PASS: TestStatement01A (0.1s)\n" +
		"--- FAIL: TestStatement02A (1s)\n--- PASS: TestStatement34And39Z (1s)\n=== RUN   TestStatement03A\n"
	if err := os.WriteFile(filepath.Join(dir, s.name()+".log"), []byte(log), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := show(suite{Package: "m/other"}); got != "" {
		t.Errorf("without packet tests: %q", got)
	}
	lines := strings.Split(show(suite{Package: "m/other"}, s), "\n")
	for n, want := range map[int]string{1: "   1  ok ", 2: "   2  FAIL ", 3: "   3  FAIL ", 4: "   4  - ", 34: "  34  ok ", 39: "  39  ok "} {
		if !strings.HasPrefix(lines[n], want) {
			t.Errorf("line %d is %q, want %q...", n, lines[n], want)
		}
	}
}
