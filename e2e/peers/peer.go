package main

import (
	"fmt"
	"slices"
	"strings"
)

// peer is a program that can be built.
type peer struct {
	name   string
	module string   // whose version it has
	pkg    string   // its package main
	ask    []string // arguments that make it print its version
}

const (
	kubernetes = "k8s.io/kubernetes"
	etcd       = "go.etcd.io/etcd/server/v3"
)

var peers = []peer{
	{"etcd", etcd, etcd, []string{"--version"}},
	{"kube-apiserver", kubernetes, kubernetes + "/cmd/kube-apiserver", []string{"--version"}},
	{"kube-proxy", kubernetes, kubernetes + "/cmd/kube-proxy", []string{"--version"}},
	{"kubectl", kubernetes, kubernetes + "/cmd/kubectl", []string{"version", "--client"}},
}

func names() []string {
	var names []string
	for _, p := range peers {
		names = append(names, p.name)
	}
	return names
}

// choose gives the named peers, all when none is named.
func choose(wanted []string) ([]peer, error) {
	if len(wanted) == 0 {
		return peers, nil
	}
	var chosen []peer
	for _, name := range wanted {
		i := slices.IndexFunc(peers, func(p peer) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("no peer %q: there are %s", name, strings.Join(names(), ", "))
		}
		chosen = append(chosen, peers[i])
	}
	return chosen, nil
}

// buildArgs are the arguments of the go command that builds the peer.
func (p peer) buildArgs(version, out string) []string {
	return []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", p.ldflags(version), "-o", out, p.pkg}
}

// ldflags are the linker's flags for a version like v1.37.2: no symbols, and
// what a release says of itself. Unlike it, they name no commit and no date.
func (p peer) ldflags(version string) string {
	flags := "-s -w"
	if p.module != kubernetes {
		return flags // etcd has its version in its source
	}
	number := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	const pkg = "k8s.io/component-base/version"
	for _, v := range []struct{ name, value string }{
		{"gitVersion", version}, {"gitMajor", number[0]}, {"gitMinor", number[1]}, {"gitTreeState", "clean"},
	} {
		flags += fmt.Sprintf(" -X %s.%s=%s", pkg, v.name, v.value)
	}
	return flags
}

// says tells whether the text that a peer printed names the version.
func says(text, version string) bool {
	number := strings.TrimPrefix(version, "v")
	return slices.ContainsFunc(strings.Fields(text), func(word string) bool {
		return strings.TrimPrefix(word, "v") == number
	})
}
