package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/netfilter"
)

// folder makes a folder of manifests with one file.
func folder(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "node.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSourceNeedsNoNetworkToRefuse(t *testing.T) {
	for _, test := range []struct {
		api  config.API
		want string
	}{
		{config.API{Kubeconfig: "/none/kubeconfig"}, "/none/kubeconfig: no such file"},
		{config.API{}, "--master"},
	} {
		_, err := openSource(t.Context(), config.Options{API: test.api, NodeName: "node-1"}, slog.New(slog.DiscardHandler))
		if exit, ok := errors.AsType[exitError](err); !ok || exit.code != 2 || !strings.Contains(err.Error(), test.want) {
			t.Errorf("error is %v, want status 2 and %q", err, test.want)
		}
	}
}

// TestSourcePodCIDRs waits for the pod networks of a Node that has none at first.
func TestSourcePodCIDRs(t *testing.T) {
	const node = "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n"
	dir := folder(t, node)
	s, err := openSource(t.Context(), config.Options{Manifests: dir, NodeName: "node-1"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() {
		text := node + "spec: {podCIDRs: [10.244.1.0/24, 'fd00:1::/64']}\n"
		_ = os.WriteFile(filepath.Join(dir, "node.yaml"), []byte(text), 0o600)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cidrs, err := s.waitPodCIDRs(ctx)
	if err != nil || len(cidrs) != 2 {
		t.Fatalf("pod networks are %v, %v", cidrs, err)
	}
	d := detector(config.Options{LocalMode: config.NodeCIDR, ClusterCIDRs: cidrs})
	if d.Mode != netfilter.DetectCIDR || d.IPv4 != cidrs[0] || d.IPv6 != cidrs[1] {
		t.Errorf("detector is %+v", d)
	}
}

// TestSourceExplains has an error say what may have led to it.
func TestSourceExplains(t *testing.T) {
	s, err := openSource(t.Context(), config.Options{Manifests: folder(t, "kind: [\n"), NodeName: "node-1"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); len(s.problems()) == 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	if text := s.explain(errors.New("too late")).Error(); !strings.Contains(text, "too late") || !strings.Contains(text, "node.yaml") {
		t.Errorf("error is %q", text)
	}
}
