//go:build kernel

package tools

import (
	"context"
	"strings"
	"testing"
)

func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestDoctor plants the known traps all at once.
func TestDoctor(t *testing.T) {
	settle(t)
	healthy := command(t, "status")
	if strings.Contains(healthy.out, "fault") || !strings.Contains(healthy.out, "ok       the kernel equals the plan\n") {
		t.Errorf("on a settled node: %+v", healthy)
	}
	ports, err := lab.Host(N).Sysctl("net/ipv4/ip_local_port_range")
	if err != nil {
		t.Fatal(err)
	}
	traps := []struct{ line, undo, says string }{
		{"iptables -P FORWARD DROP", "iptables -P FORWARD ACCEPT", "note IPv4 policy of filter FORWARD is DROP"},
		{"ip6tables -P INPUT DROP", "ip6tables -P INPUT ACCEPT", "warning IPv6 policy of filter INPUT is DROP"},
		{"iptables -t nat -N KUBE-SVC-AAAA", "iptables -t nat -X KUBE-SVC-AAAA", "KUBE-SVC-AAAA): a kube-proxy runs beside this proxy"},
		{"nft add table ip kube-proxy", "nft delete table ip kube-proxy", "nftables tables of kube-proxy are here (ip kube-proxy)"},
		{"sysctl -qw net.ipv4.conf.all.rp_filter=1", "sysctl -qw net.ipv4.conf.all.rp_filter=0", "note rp_filter is 1 on"},
		{"ipvsadm --set 60 30 30", "ipvsadm --set 900 120 300", "warning IPVS forgets TCP connections that are idle for 60 s"},
		{"sysctl -qw net.ipv4.ip_local_reserved_ports=8080", "sysctl -qw net.ipv4.ip_local_reserved_ports=8080,30080", "NodePorts are 30000-32767"},
		{"ipset del KUBE-CLUSTER-IP 10.96.0.10,tcp:80", "ipset add KUBE-CLUSTER-IP 10.96.0.10,tcp:80", "fault differences of the kernel from the plan: "},
	}
	for _, trap := range traps {
		tool(t, trap.line)
	}
	if err := lab.Host(N).SetSysctl("net/ipv4/ip_local_port_range", "20000 60999"); err != nil {
		t.Fatal(err)
	}
	a := command(t, "doctor", "--accept-input=false")
	for _, trap := range traps {
		if !strings.Contains(flat(a.out), trap.says) {
			t.Errorf("after %q it does not say %q", trap.line, trap.says)
		}
		tool(t, trap.undo)
	}
	for _, want := range []string{
		"the node takes ports 20000-60999 for its own connections, NodePorts are 30000-32767",
		"fault the agent does not answer", "ok the node has what the proxy needs",
	} {
		if !strings.Contains(flat(a.out), want) {
			t.Errorf("does not say %q", want)
		}
	}
	if a.code != 1 || t.Failed() {
		t.Errorf("%d: %s%s", a.code, a.out, a.errors)
	}
	if err := lab.Host(N).SetSysctl("net/ipv4/ip_local_port_range", ports); err != nil {
		t.Fatal(err)
	}
}

// TestToolsBesideAnAgent: they find nothing to say against a node that an agent keeps,
// and do not disturb it.
func TestToolsBesideAnAgent(t *testing.T) {
	if err := lab.Proxy(N).Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lab.Proxy(N).Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if err := lab.Settle(context.Background(), N); err != nil {
		t.Fatal(err)
	}
	if a := command(t, "verify"); a.code != 0 {
		t.Errorf("verify: %+v", a)
	}
	if a := command(t, "cleanup", "--dry-run"); !strings.Contains(a.out, "an agent runs on this node") {
		t.Errorf("cleanup --dry-run: %+v", a)
	}
	if a := command(t, "doctor"); !strings.Contains(flat(a.out), "ok the agent answers: http://127.0.0.1:10256/healthz: 200 OK") {
		t.Errorf("doctor: %+v", a)
	}
	errors := lab.Proxy(N).Log().Last(100, func(l string) bool { return strings.Contains(l, "level=ERROR") })
	if len(errors) > 0 {
		t.Errorf("the agent was disturbed: %q", errors)
	}
}

// TestExplain asks about each kind of Service, on a settled node and a damaged one.
func TestExplain(t *testing.T) {
	settle(t)
	for _, test := range []struct {
		args []string
		says []string
	}{
		{[]string{"shop/web", "--from", "10.244.1.5"}, []string{"kernel as planned", "verdict works", "10.244.3.10:8080 on node-3: not used: it is not ready", "the endpoint sees 10.244.1.5"}},
		{[]string{"shop/front", "--from", "172.30.0.5", "--to", "203.0.113.7"}, []string{"captured:", "inside of the source ranges", "only endpoints on this node", "verdict works"}},
		{[]string{"shop/front", "--from", "198.51.100.1", "--to", "203.0.113.7"}, []string{"verdict dropped: loadBalancerSourceRanges do not hold the client"}},
		{[]string{"shop/front", "--to", "fd96::20", "--from", "node"}, []string{"verdict works"}},
		{[]string{"shop/front:http", "--to", "fd20:113::7", "--from", "outside"}, []string{"verdict dropped: externalTrafficPolicy is Local"}},
		{[]string{"shop/empty"}, []string{"verdict refused: no endpoint of the port can serve"}},
		{[]string{"kube-system/dns", "--from", "pod"}, []string{"verdict dropped: internalTrafficPolicy is Local"}},
	} {
		a := command(t, "explain", test.args...)
		for _, want := range test.says {
			if !strings.Contains(flat(a.out), want) {
				t.Errorf("%v does not say %q:\n%s%s", test.args, want, a.out, a.errors)
			}
		}
	}
	tool(t, "conntrack -I -p udp -t 60 --src 10.244.1.5 --dst 10.96.0.53 --sport 5555 --dport 53 "+
		"--reply-src 10.244.9.9 --reply-dst 10.244.1.5 --reply-port-src 53 --reply-port-dst 5555")
	if a := command(t, "explain", "kube-system/dns"); !strings.Contains(flat(a.out), "flow 10.96.0.53:53/udp -> 10.244.9.9:53: want nothing, have 1 in conntrack") {
		t.Errorf("a stale flow: %+v", a)
	}
	tool(t, "ipvsadm -e -t 10.96.0.10:80 -r 10.244.1.10:8080 -m -w 0")
	if a := command(t, "explain", "shop/web", "--to", "10.96.0.10"); !strings.Contains(flat(a.out), "verdict differs from plan: real server 10.96.0.10:80/tcp -> 10.244.1.10:8080") {
		t.Errorf("damaged: %+v", a)
	}
	settle(t)
	if a := command(t, "explain", "shop/wbe"); a.code != 2 || !strings.Contains(a.errors, "nearest: shop/web") {
		t.Errorf("unknown: %+v", a)
	}
	if command(t, "verify").code != 0 {
		t.Error("explain changed something")
	}
}
