//go:build kernel

package tools

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"sigs.k8s.io/yaml"
)

// kubectlOf names, in the environment of this program, a folder of manifests: then the
// program is kubectl, as far as verify-ipvsadm.sh needs it.
const kubectlOf = "KUBECTL_OF"

// kubectl answers "get KIND [NAME] ... -o go-template=..." from a folder of manifests by
// the template engine that the real one has.
func kubectl(dir string, args []string, out io.Writer) error {
	if len(args) < 2 || args[0] != "get" {
		return fmt.Errorf("only get is known, not %q", args)
	}
	kind := map[string]string{"services": "Service", "endpointslices": "EndpointSlice", "node": "Node"}[args[1]]
	text := ""
	for _, arg := range args {
		if t, ok := strings.CutPrefix(arg, "go-template="); ok {
			text = t
		}
	}
	t, err := template.New("kubectl").Parse(text)
	if kind == "" || text == "" || err != nil {
		return fmt.Errorf("kubectl %q: %w", args, err)
	}
	items, err := objects(dir, kind)
	if err != nil {
		return err
	}
	if kind != "Node" {
		return t.Execute(out, map[string]any{"items": items})
	}
	for _, item := range items {
		if item.(map[string]any)["metadata"].(map[string]any)["name"] == args[2] {
			return t.Execute(out, item)
		}
	}
	return errors.New("nodes " + args[2] + " not found")
}

// objects are all of a kind in the files of a folder.
func objects(dir, kind string) ([]any, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var items []any
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for _, document := range strings.Split("\n"+string(text), "\n---") {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(document), &object); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if object["kind"] == kind {
				items = append(items, object)
			}
		}
	}
	return items, nil
}

// byHand runs verify-ipvsadm.sh on the node.
func byHand(t *testing.T) answer {
	t.Helper()
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/bin/sh\n%s='%s' exec '%s' \"$@\"\n", kubectlOf, lab.Manifests.Dir(), self)
	if err := os.WriteFile(filepath.Join(dir, "kubectl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return start(t, "sh", "../verify-ipvsadm.sh", N)
}

// TestVerifyByHand: ipvsadm and kubectl alone come to the verdict of verify.
func TestVerifyByHand(t *testing.T) {
	settle(t)
	if a := byHand(t); a.code != 0 || !strings.Contains(a.out, " 0 differences") {
		t.Fatalf("on a settled node: %+v", a)
	}
	for _, line := range []string{
		"ipvsadm -e -t 10.96.0.10:80 -r 10.244.2.10:8080 -m -w 0",
		"ipvsadm -d -t 10.96.0.10:80 -r 10.244.1.10:8080",
		"ipvsadm -a -t 203.0.113.7:80 -r 10.244.2.10:8080 -m",
		"ipvsadm -D -t [fd96::10]:80",
		"ipvsadm -A -u 10.96.0.53:54 -s rr",
		"ipvsadm -D -t 172.30.0.2:30080",
	} {
		plant(t, line)
	}
	a := byHand(t)
	want := []string{
		"weight 0: TCP 10.96.0.10:80 -> 10.244.2.10:8080 (shop/web): it gets no new connections",
		"missing: TCP 10.96.0.10:80 -> 10.244.1.10:8080 (shop/web)",
		"stranger: TCP 203.0.113.7:80 -> 10.244.2.10:8080 (shop/front): no endpoint that should serve",
		"missing: virtual server TCP [fd96::10]:80 (shop/web)",
		"stranger: virtual server UDP 10.96.0.53:54: no Service has this port of its address",
		"missing: virtual server TCP 172.30.0.2:30080 (shop/front)",
	}
	lines := strings.Split(strings.TrimSpace(a.out), "\n")
	said := slices.Sorted(slices.Values(lines[:len(lines)-1]))
	if slices.Sort(want); !slices.Equal(said, want) || a.code != 1 {
		t.Errorf("it ended with %d and said %q, want %q; %s", a.code, said, want, a.errors)
	}
}
