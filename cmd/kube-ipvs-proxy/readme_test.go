package main

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"kube-ipvs-proxy/e2e/readme"
)

// TestCommandsOfTheReadme: each is there, has help, and knows the flags that the README
// names beside it. Those with output are run in e2e/readme.
func TestCommandsOfTheReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	help := func(args ...string) string {
		root := command()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&out)
		root.SetArgs(args)
		if err := root.Execute(); err != nil {
			t.Errorf("%q: %v", args, err)
		}
		return out.String()
	}
	run := help("run", "--help")
	asked := 0
	for _, c := range readme.Commands("README.md", string(text)) {
		words := strings.Fields(c.Text)
		if words[0] != "kube-ipvs-proxy" || len(words) < 2 {
			continue
		}
		asked++
		name := strings.Trim(words[1], "[]")
		out := help(name, "--help")
		if !strings.Contains(out, "\nUsage:\n  kube-ipvs-proxy "+name) {
			t.Errorf("%s: %q prints %q", c.Where, c.Text, out)
		}
		for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(c.Text, -1) {
			if !strings.Contains(out+run, "  "+flag) {
				t.Errorf("%s: no flag %s", c.Where, flag)
			}
		}
	}
	if asked < 8 {
		t.Errorf("the README names %d commands", asked)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out := help("completion", shell); !strings.Contains(out, "kube-ipvs-proxy") {
			t.Errorf("completion %s: %q", shell, out)
		}
	}
}
