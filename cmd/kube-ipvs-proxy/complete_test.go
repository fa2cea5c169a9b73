package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestCompletion(t *testing.T) {
	manifests := folder(t, toldManifest)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"explain", "--manifests", manifests, "sh"}, "shop/web\n:4\n"},
		{[]string{"explain", "--manifests", manifests, "x"}, ":4\n"},
		{[]string{"explain", "--from", ""}, "pod\nnode\noutside\n:4\n"},
		{[]string{"list", "--manifests", manifests, "--service", "shop/"}, "shop/web\n:4\n"},
		{[]string{"list", "--manifests", manifests, "--namespace", ""}, "shop\n:4\n"},
		{[]string{"list", "-o", ""}, "table\nwide\njson\nipvsadm\n:4\n"},
		{[]string{"doc"}, "doctor\tLook for what is wrong with this node, and say what to do next\n:4\n"},
	} {
		root := command()
		var out bytes.Buffer
		root.SetOut(&out)
		root.SetArgs(append([]string{"__complete"}, test.args...))
		if err := root.Execute(); err != nil {
			t.Errorf("%v: %v", test.args, err)
		}
		if got, _, _ := strings.Cut(out.String(), "Completion ended"); got != test.want {
			t.Errorf("%v: %q, want %q", test.args, got, test.want)
		}
	}
}
