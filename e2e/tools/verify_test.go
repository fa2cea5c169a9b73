//go:build kernel

package tools

import (
	"encoding/json"
	"errors"
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

// countStarts puts programs ahead of those of the node that note that they were started,
// and returns what reads the notes and forgets them.
func countStarts(t *testing.T) func() []string {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "log")
	names := []string{"modprobe", "ipset", "ipvsadm", "ip", "sysctl", "conntrack", "nft", "sh"}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, backend := range []string{"", "-nft", "-legacy"} {
			for _, does := range []string{"", "-save", "-restore"} {
				names = append(names, family+backend+does)
			}
		}
	}
	path := os.Getenv("PATH")
	for _, name := range names {
		script := "#!/bin/sh\necho " + name + " >>" + log + "\nPATH=" + path + "\nexec " + name + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+path)
	return func() []string {
		text, err := os.ReadFile(log)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.RemoveAll(log); err != nil {
			t.Fatal(err)
		}
		return strings.Fields(string(text))
	}
}

// few are the programs that the commands that look may start: they may be called every
// minute on a busy node. To read the rules takes one a family; plan asks, as run does,
// whether the programs work.
var few = map[string]int{"verify": 2, "explain shop/web": 2, "list": 0, "plan": 4}

// TestCommandsStartFewPrograms, wherever they have to find out which iptables the node uses.
func TestCommandsStartFewPrograms(t *testing.T) {
	settle(t)
	started := countStarts(t)
	for line, want := range few {
		words := strings.Fields(line)
		a := command(t, words[0], words[1:]...)
		if got := started(); len(got) != want || a.code != 0 {
			t.Errorf("%s started %q, want %d programs: %+v", line, got, want, a)
		}
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
}

// TestHalfAState: of a node on which a proxy died at its start, or on which somebody began
// to clean up, all that is missing is named, and what is there is judged.
func TestHalfAState(t *testing.T) {
	if a := command(t, "cleanup"); a.code != 0 {
		t.Fatalf("%+v", a)
	}
	for _, line := range []string{
		"ipset create KUBE-CLUSTER-IP hash:ip", // of another type than ours
		"ipvsadm -A -t 10.96.0.10:80 -s rr -p 10800", "ipvsadm -a -t 10.96.0.10:80 -r 10.244.1.10:8080 -m",
		"iptables -t mangle -N KIPVS-INPUT",
	} {
		tool(t, line)
	}
	a := command(t, "verify")
	for _, want := range []string{
		"device kube-ipvs0 want there, have missing",
		"real server 10.96.0.10:80/tcp -> 10.244.2.10:8080 (shop/web) want weight 1, have missing",
		"virtual server [fd96::10]:80/tcp (shop/web) want rr persistent 10800, have missing",
		"set KUBE-CLUSTER-IP want hash:ip,port", "set KUBE-6-CLUSTER-IP want there, have missing", "chain KIPVS-INPUT has 0 rules", "policy rule IPv4 capture want there, have missing",
	} {
		if !strings.Contains(flat(a.out), want) {
			t.Errorf("verify does not say %q", want)
		}
	}
	if a.code != 1 || strings.Contains(a.out, "virtual server 10.96.0.10:80/tcp ") {
		t.Errorf("verify ended with %d:\n%s%s", a.code, a.out, a.errors)
	}
	if a := command(t, "explain", "shop/web", "--to", "10.96.0.10"); !strings.Contains(flat(a.out), "verdict differs from plan: ") || a.code != 0 {
		t.Errorf("explain: %+v", a)
	}
	settle(t)
	if a := command(t, "verify"); a.code != 0 {
		t.Errorf("after run --once: %+v", a)
	}
}
