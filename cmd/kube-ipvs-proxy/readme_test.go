package main

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"kube-ipvs-proxy/e2e/readme"
	"kube-ipvs-proxy/proxier/config"
)

// TestFlagsOfTheDocuments: every flag between back quotes is one of ours, and the sample
// configuration has no field that nobody reads.
func TestFlagsOfTheDocuments(t *testing.T) {
	known := map[string]bool{}
	commands := append(command().Commands(), command())
	for _, c := range commands {
		c.Flags().VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	}
	// Flags of others: the API server, the tests' machine, helm.
	for _, name := range []string{"service-node-port-range", "machine", "steady", "set", "help"} {
		known[name] = true
	}
	quoted := regexp.MustCompile("`--([a-z0-9-]+)")
	for _, name := range []string{"README.md", "deploy/README.md", "deploy/troubleshooting.md", "e2e/README.md"} {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range quoted.FindAllStringSubmatch(string(text), -1) {
			if !known[found[1]] {
				t.Errorf("%s: no command has the flag --%s", name, found[1])
			}
		}
	}
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, ok := strings.Cut(string(text), "```yaml\n")
	if !ok {
		t.Fatal("no sample configuration")
	}
	sample, _, _ = strings.Cut(sample, "```")
	raw, err := config.Read([]byte(sample))
	if err != nil {
		t.Fatal(err)
	}
	options, err := raw.Validate()
	if err != nil || options.Scheduler != "lc" || len(options.ClusterCIDRs) != 2 {
		t.Errorf("the sample gives %+v, %v", options, err)
	}
	for _, note := range options.Notes {
		if strings.Contains(note.Text, "unknown") {
			t.Errorf("the sample: %s", note.Text)
		}
	}
}

var update = flag.Bool("update", false, "write deploy/options.md")

// TestOptionsDocument: deploy/options.md has what run --help says of each flag.
func TestOptionsDocument(t *testing.T) {
	help, err := execute(t, "run", "--help")
	if err != nil {
		t.Fatal(err)
	}
	_, flags, ok := strings.Cut(help, "kube-ipvs-proxy run --manifests /etc/services --once\n\n")
	flags, _, more := strings.Cut(flags, "\nFlags:\n")
	if !ok || !more {
		t.Fatalf("no flags in %q", help)
	}
	want := "# All options\n\nWritten by `go test ./cmd/kube-ipvs-proxy -run OptionsDocument -update` from `kube-ipvs-proxy run --help`. In the\n" +
		"file of `--config` they are fields of the KubeProxyConfiguration, as in kube-proxy, or of our own document.\n\n```\n" + strings.TrimSpace(flags) + "\n```\n"
	const file = "../../deploy/options.md"
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(file); err != nil || string(have) != want {
		t.Errorf("%s is not what the help says (-update writes it): %v", file, err)
	}
}

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
