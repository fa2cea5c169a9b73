//go:build kernel

package tools

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fault is a damage of the kernel, and what verify says of it.
type fault struct {
	line string
	says string
}

// faults come together, as many as do not hide each other: in an emulator each run of
// a command takes seconds.
var faults = [][]fault{
	{
		{"ipvsadm -e -t 10.96.0.10:80 -r 10.244.2.10:8080 -m -w 0", "real server 10.96.0.10:80/tcp -> 10.244.2.10:8080 (shop/web) want weight 1, have weight 0: this endpoint gets no new connections"},
		{"ipvsadm -d -t 10.96.0.10:80 -r 10.244.1.10:8080", "real server 10.96.0.10:80/tcp -> 10.244.1.10:8080 (shop/web) want weight 1, have missing: this endpoint gets no connections"},
		{"ipvsadm -a -t 10.96.0.10:80 -r 10.244.3.99:8080 -m", "-> 10.244.3.99:8080 (shop/web) want nothing, have weight 1: connections go to an endpoint that is none of the Service"},
		{"ipvsadm -E -t 10.96.0.10:80 -s rr", "want rr persistent 10800, have rr: clients are not kept at one endpoint (session affinity)"},
		{"ipvsadm -E -t 10.96.0.20:80 -s wlc", "virtual server 10.96.0.20:80/tcp (shop/front) want rr, have wlc: new connections are spread by wlc instead of rr"},
		{"ipvsadm -e -t 10.96.0.20:80 -r 10.244.2.10:8080 -m -x 9 -y 3", "have other forwarding or thresholds: packets to this endpoint are not translated"},
		{"ipvsadm -D -t [fd96::10]:80", "virtual server [fd96::10]:80/tcp (shop/web) want rr persistent 10800, have missing"},
		{"ipvsadm -A -t 10.96.0.10:81 -s rr", "virtual server 10.96.0.10:81/tcp want nothing, have rr: no Service has it any more"},
		{"ipset del KUBE-CLUSTER-IP 10.96.0.10,tcp:80", "set entry KUBE-CLUSTER-IP 10.96.0.10,tcp:80 (shop/web) want there, have missing: clients outside of the pods are not masqueraded"},
		{"ipset add KIPVS-REFUSE 10.96.0.10,tcp:80", "set entry KIPVS-REFUSE 10.96.0.10,tcp:80 (shop/web) want nothing, have there: all clients are refused"},
		{"ipset del KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.7,tcp:80,172.30.0.0/16", "clients of this source range are dropped"},
		{"ipset del KIPVS-SHORT-CIRCUIT 203.0.113.7,tcp:80", "clients on this node reach only the endpoints on it"},
		{"ip address del 10.96.0.53/32 dev kube-ipvs0", "address 10.96.0.53 want bound, have missing: packets to it leave the node"},
		{"ip address add 10.96.0.99/32 dev kube-ipvs0", "address 10.96.0.99 want nothing, have bound: no Service has it"},
		{"ip route del local 203.0.113.7 table 18768", "route 203.0.113.7 want captured, have missing"},
		{"ip rule del fwmark 0x8000/0x8000", "policy rule IPv4 capture want there, have missing"},
		{"iptables -t nat -I PREROUTING -j RETURN", "jumps from PREROUTING are not as they should be rules of others come first"},
		{"ip6tables -t filter -R KIPVS-FRONTENDS 3 -j RETURN", "rule 3 of chain KIPVS-FRONTENDS"},
		{"iptables -t mangle -F KIPVS-INPUT", "chain KIPVS-INPUT has 0 rules"},
		{"sysctl -qw net.ipv4.vs.conntrack=0", "setting net.ipv4.vs.conntrack want 1, have 0: connections are not masqueraded"},
	},
	{
		{"ip link del kube-ipvs0", "device kube-ipvs0 want there, have missing"},
		{"iptables -t filter -D INPUT -j KUBE-IPVS-FILTER -m comment --comment kubernetes\u00a0ipvs\u00a0access\u00a0filter", "jumps from INPUT are not as they should be"},
		{"ipset swap KUBE-LOAD-BALANCER KUBE-EXTERNAL-IP", "set entry KUBE-LOAD-BALANCER 203.0.113.7,tcp:80 (shop/front) want there, have missing"},
	},
}

func TestVerify(t *testing.T) {
	settle(t)
	if a := command(t, "verify"); a.code != 0 || !strings.Contains(a.out, "kernel equals the plan") {
		t.Fatalf("on a settled node: %d\n%s%s", a.code, a.out, a.errors)
	}
	if a := command(t, "plan"); a.code != 0 || work(a) != 0 {
		t.Errorf("plan on a settled node: %d\n%s%s", a.code, a.out, a.errors)
	}
	for n, batch := range faults {
		for _, f := range batch {
			plant(t, f.line)
		}
		before := state(t)
		a := command(t, "verify")
		if a.code != 1 {
			t.Errorf("exit status %d: %s", a.code, a.errors)
		}
		flat := strings.Join(strings.Fields(a.out), " ")
		for _, f := range batch {
			if !strings.Contains(flat, f.says) {
				t.Errorf("after %q it does not say %q", f.line, f.says)
			}
		}
		if t.Failed() {
			t.Log(a.out)
		}
		planned := command(t, "plan")
		if planned.code != 0 || work(planned) < len(batch) {
			t.Errorf("plan: %+v", planned)
		}
		if state(t) != before {
			t.Error("verify or plan changed the kernel")
		}
		if n == 0 {
			tool(t, "iptables -t nat -D PREROUTING -j RETURN")
		}
		settle(t)
	}
	if a := command(t, "verify"); a.code != 0 {
		t.Errorf("after all were mended: %d\n%s", a.code, a.out)
	}
}

// plant runs a line; the no-break space stands for one within an argument.
func plant(t *testing.T, line string) {
	t.Helper()
	f := strings.Fields(strings.ReplaceAll(line, "\u00a0", "\x00"))
	for i := range f {
		f[i] = strings.ReplaceAll(f[i], "\x00", " ")
	}
	if _, err := lab.Host(N).Exec(t.Context(), f[0], f[1:]...); err != nil {
		t.Fatal(err)
	}
}

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
	for _, name := range []string{"iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save", "ip6tables-restore", "modprobe", "ipset", "ipvsadm", "ip", "sysctl", "conntrack", "nft"} {
		script := "#!/bin/sh\necho " + name + " >>" + log + "\nPATH=/usr/sbin:/sbin:/usr/bin:/bin exec " + name + " \"$@\"\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	if a := command(t, "verify"); a.code != 0 {
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
