package config

import (
	"slices"
	"testing"
)

// TestDiffNamesEveryOption: each option that changes is named once, on its side.
func TestDiffNamesEveryOption(t *testing.T) {
	for _, test := range chosen {
		o := lookup(t, test.flag)
		before, err := resolve(t, "--"+o.name+"="+test.a.flag)
		if err != nil {
			t.Fatal(err)
		}
		after, err := resolve(t, "--"+o.name+"="+test.b.flag)
		if err != nil {
			t.Fatal(err)
		}
		live, restart := Diff(before, after)
		switch {
		case o.name == "bind-address": // takes the servers' addresses along
			if !slices.Contains(restart, "bindAddress") {
				t.Errorf("%s: %v, %v", o.path, live, restart)
			}
		case o.live && (!slices.Equal(live, []string{o.path}) || restart != nil),
			!o.live && (!slices.Equal(restart, []string{o.path}) || live != nil):
			t.Errorf("%s: live %v, restart %v; the option is live: %t", o.path, live, restart, o.live)
		}
		if live, restart := Diff(after, after); live != nil || restart != nil {
			t.Errorf("%s: equal ones differ: %v, %v", o.path, live, restart)
		}
	}
}

func TestDiffOfWhatHasNoFlag(t *testing.T) {
	read := func(more string) Raw {
		r, err := Read([]byte(kubeProxyHead + more))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	for _, test := range []struct {
		before, after string
		want          []string
	}{
		{"mode: nftables", "mode: nftables\nnftables: {masqueradeAll: true}", []string{"nftables"}},
		{"mode: ipvs", "mode: ipvs\nnftables: {masqueradeAll: true}", nil},
		{"portRange: a", "portRange: b", nil},
		{"mode: ipvs", "mode: ipvs\nipvs: {excludeCIDRs: [10.0.0.0/8]}", nil},
	} {
		if live, restart := Diff(read(test.before), read(test.after)); live != nil || !slices.Equal(restart, test.want) {
			t.Errorf("%q to %q: %v, %v, want %v", test.before, test.after, live, restart, test.want)
		}
	}
}
