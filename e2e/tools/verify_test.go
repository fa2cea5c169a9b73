//go:build kernel

package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// work counts the operations of plan, but for settings: those of the whole machine
// cannot be set in a namespace.
func work(a answer) int {
	n := 0
	for line := range strings.Lines(a.out) {
		if !strings.HasPrefix(line, "set ") && !strings.Contains(line, "nothing was done") && !strings.HasPrefix(line, "nothing to do") {
			n++
		}
	}
	return n
}

// TestVerifyStartsTwoPrograms: it may be called every minute on a busy node.
func TestVerifyStartsTwoPrograms(t *testing.T) {
	settle(t)
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore",
		"iptables-nft", "iptables-nft-save", "ip6tables-nft", "ip6tables-nft-save", "iptables-legacy", "iptables-legacy-save", "ip6tables-legacy", "ip6tables-legacy-save", "modprobe", "ipset", "ipvsadm", "ip", "sysctl", "conntrack", "nft"} {
		script := "#!/bin/sh\necho " + name + " >>" + log + "\nPATH=/usr/sbin:/sbin:/usr/bin:/bin exec " + name + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if a := command(t, "verify", "--iptables-backend", "nft"); a.code != 0 { // auto has to look for it
		t.Fatalf("%+v", a)
	}
	text, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), "\n"); n != 2 {
		t.Errorf("started %d programs:\n%s", n, text)
	}
}

func TestVerifyJSON(t *testing.T) {
	settle(t)
	tool(t, "ipvsadm -D -u 10.96.0.53:53")
	a := command(t, "verify", "-o", "json")
	var v struct {
		Result      string
		Differences []struct {
			Kind, Object, Service string
			Fine                  bool
		}
	}
	if err := json.Unmarshal([]byte(a.out), &v); err != nil {
		t.Fatalf("%v\n%s", err, a.out)
	}
	wrong := 0
	for _, d := range v.Differences {
		if !d.Fine {
			wrong++
			if d.Service != "kube-system/dns" || d.Kind != "virtual server" {
				t.Errorf("differs: %+v", d)
			}
		}
	}
	if a.code != 1 || v.Result != "different" || wrong != 1 {
		t.Errorf("%d: %+v", a.code, v)
	}
	settle(t)
}
