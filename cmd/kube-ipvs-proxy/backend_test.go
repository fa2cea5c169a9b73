package main

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kube-ipvs-proxy/proxier/netfilter"
)

// TestPreflightIsOneLine with all that an operator asks first, and a warning where a
// match is missing.
func TestPreflightIsOneLine(t *testing.T) {
	for _, match := range []bool{true, false} {
		var log bytes.Buffer
		tellPreflight(t.Context(), netfilter.Choice{Backend: netfilter.BackendLegacy, Why: "the kubelet has the chain X"},
			netfilter.Features{Version: "1.8.9", RandomFully: true, IPVSMatch: match}, slog.New(slog.NewTextHandler(&log, nil)))
		first, rest, _ := strings.Cut(log.String(), "\n")
		for _, want := range []string{"msg=preflight", "kernel=", "iptables=1.8.9", "backend=legacy", "chain X", "randomFully=true", "ipv6="} {
			if !strings.Contains(first, want) {
				t.Errorf("no %s in %s", want, first)
			}
		}
		if warned := strings.Contains(rest, "xt_ipvs"); warned == match {
			t.Errorf("match %t: %s", match, rest)
		}
	}
}

func TestAskOtherProxy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/proxyMode" {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte("iptables\n"))
	}))
	defer server.Close()
	for url, want := range map[string]string{
		server.URL + "/proxyMode": "iptables", server.URL + "/other": "", "http://127.0.0.1:1/proxyMode": "",
	} {
		if got := askOtherProxy(t.Context(), url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}
