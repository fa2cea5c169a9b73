package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/host"
)

// TestSettingsAreMended: what somebody changed is set again each time; what cannot be
// set is told once, and again after it was right in between.
func TestSettingsAreMended(t *testing.T) {
	root := t.TempDir()
	file := func(name string) string { return filepath.Join(root, name) }
	write := func(name, value string) {
		t.Helper()
		if err := os.WriteFile(file(name), []byte(value), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	settings := []host.Sysctl{
		{Key: "settable", Want: "1", Breaks: "something"},
		{Key: "fixed", Want: "1", Rule: host.ReportSysctl, Breaks: "something else"},
	}
	write("settable", "1")
	write("fixed", "1")
	told := map[string]bool{}
	round := func(wantLines ...string) {
		t.Helper()
		var out bytes.Buffer
		mendSettings(root, settings, told, slog.New(slog.NewTextHandler(&out, nil)))
		lines := strings.FieldsFunc(out.String(), func(r rune) bool { return r == '\n' })
		if len(lines) != len(wantLines) {
			t.Fatalf("log %q, want %q", lines, wantLines)
		}
		for i, want := range wantLines {
			if !strings.Contains(lines[i], want) {
				t.Errorf("log %q, want %q", lines[i], want)
			}
		}
		if text, err := os.ReadFile(file("settable")); err != nil || string(text) != "1" {
			t.Errorf("settable is %q, %v", text, err)
		}
	}
	round()
	for range 2 {
		write("settable", "0")
		round("set again")
	}
	write("fixed", "0")
	round("fixed is 0")
	round()
	write("settable", "0")
	round("set again")
	write("fixed", "1")
	round()
	write("fixed", "0")
	round("fixed is 0")
}

// TestCaseI5RunEstimation (kernel estimators that stall big nodes): the kernel's setting
// is left alone unless one is chosen.
func TestCaseI5RunEstimation(t *testing.T) {
	for want, chosen := range map[string]*bool{"": nil, "0": new(false), "1": new(true)} {
		settings, _, err := wantedSysctls(config.Options{RunEstimation: chosen}, false, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		for _, s := range settings {
			if s.Key == "net/ipv4/vs/run_estimation" {
				got = s.Want
			}
		}
		if got != want {
			t.Errorf("run_estimation becomes %q, want %q", got, want)
		}
	}
}
