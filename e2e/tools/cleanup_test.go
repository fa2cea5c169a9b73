//go:build kernel

package tools

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// foreign is what others have on the node before us.
var foreign = []string{
	"ipvsadm -A -t 192.0.2.99:80 -s wrr", "ipvsadm -a -t 192.0.2.99:80 -r 10.244.1.77:80 -m -w 3",
	"ipvsadm -A -f 77 -s rr", "ipvsadm -A -t [fd00::99]:80 -s rr",
	"ipset create BLOCKED hash:ip", "ipset add BLOCKED 198.51.100.66", "ipset create KUBE-OTHER hash:ip",
	"iptables -t filter -A INPUT -p tcp --dport 2222 -j ACCEPT", "iptables -t nat -A POSTROUTING -s 192.0.2.0/24 -j MASQUERADE",
	"iptables -t mangle -A PREROUTING -p tcp --dport 2223 -j MARK --set-mark 7", "iptables -t nat -N KUBE-FOREIGN",
	"ip6tables -t filter -A INPUT -p tcp --dport 2222 -j ACCEPT", "ip6tables -t nat -A POSTROUTING -s fd00::/64 -j MASQUERADE",
	"ip6tables -t mangle -A PREROUTING -p tcp --dport 2223 -j MARK --set-mark 7",
	"ip rule add fwmark 0x8000 lookup 55 priority 99", "ip route add local 192.0.2.77 dev lo table 55",
	"sysctl -qw net.ipv4.ip_local_reserved_ports=8080,30080", "ip address add 192.0.2.98/32 dev lo", "ip link add other0 type dummy",
}

var counters = regexp.MustCompile(`(?m)\[\d+:\d+\]|^#.*$|^\d+: `)

// state is all that the kernel has of what a proxy writes.
func state(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for _, line := range []string{
		"ipvsadm -Ln", "ipset list -n", "iptables-save", "ip6tables-save", "ip -br link", "ip address show dev lo",
		"sysctl net.ipv4.ip_local_reserved_ports", "ip rule", "ip -6 rule", "ip route show table all", "ip -6 route show table all",
	} {
		out := counters.ReplaceAllString(tool(t, line), "")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if strings.Contains(line, "route") {
			lines = slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, "multicast") })
			slices.Sort(lines) // their order tells the order of their coming
		}
		b.WriteString("# " + line + "\n" + strings.Join(lines, "\n") + "\n")
	}
	return b.String()
}

func TestCleanupLeavesTheNodeAsItWas(t *testing.T) {
	for _, line := range foreign {
		tool(t, line)
	}
	command(t, "cleanup") // of what other tests left
	before := state(t)
	for _, args := range [][]string{nil, {"--cluster-ip-binding=route", "--external-address-mode=bind"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			if a := command(t, "run", append([]string{"--once"}, args...)...); a.code != 0 {
				t.Fatalf("run --once: %+v", a)
			}
			running := state(t)
			if running == before {
				t.Fatal("run changed nothing")
			}
			dry := command(t, "cleanup", "--dry-run")
			if diff := cmp.Diff(running, state(t)); diff != "" || dry.code != 0 {
				t.Errorf("--dry-run (%d) changed something:\n%s", dry.code, diff)
			}
			for _, want := range []string{"would delete virtual server 10.96.0.10:80/tcp", "would destroy set KUBE-6-CLUSTER-IP", "would remove chain IPv6 mangle KIPVS-INPUT"} {
				if !strings.Contains(dry.out, want+"\n") {
					t.Errorf("--dry-run does not say %q:\n%s", want, dry.out)
				}
			}
			a := command(t, "cleanup")
			if diff := cmp.Diff(before, state(t)); diff != "" || a.code != 0 {
				t.Fatalf("cleanup (%d) %s%s left (+) or took (-):\n%s", a.code, a.out, a.errors, diff)
			}
			if again := command(t, "cleanup"); again.code != 0 || !strings.Contains(again.out, "nothing of kube-ipvs-proxy is here") {
				t.Errorf("once more: %+v", again)
			}
		})
	}
}

// servedByKubeProxy: a node that kube-proxy's ipvs mode has can be judged before it
// changes hands. What that mode has is what we leave it where external addresses are bound.
func servedByKubeProxy(t *testing.T) {
	t.Helper()
	if a := command(t, "run", "--once", "--external-address-mode=bind"); a.code != 0 {
		t.Fatalf("run --once: %+v", a)
	}
	if a := command(t, "cleanup", "--for=kube-proxy-ipvs"); a.code != 0 {
		t.Fatalf("cleanup: %+v", a)
	}
	if a := command(t, "verify", "--served-by=kube-proxy-ipvs"); a.code != 0 || !strings.Contains(a.out, "kernel equals the plan") {
		t.Errorf("verify of kube-proxy's node: %+v", a)
	}
	if a := command(t, "list", "--service", "shop/web"); a.code != 0 || !strings.Contains(a.out, "10.96.0.10:80/tcp  shop/web:http  ClusterIP") {
		t.Errorf("list on kube-proxy's node: %+v", a)
	}
	tool(t, "ipvsadm -e -t 10.96.0.10:80 -r 10.244.1.10:8080 -m -w 0")
	if a := command(t, "verify", "--served-by=kube-proxy-ipvs"); a.code != 1 || !strings.Contains(a.errors, ": 1 difference (") {
		t.Errorf("verify of kube-proxy's node with a weight of 0: %+v", a)
	}
}

// TestCleanupForKubeProxy leaves what kube-proxy's ipvs mode takes over.
func TestCleanupForKubeProxy(t *testing.T) {
	settle(t)
	grown := growSet(t, "KUBE-CLUSTER-IP")
	servers := tool(t, "ipvsadm -Ln")
	a := command(t, "cleanup", "--for=kube-proxy-ipvs")
	if a.code != 0 {
		t.Fatalf("%+v", a)
	}
	var kept []string // mark servers go with their real servers, all others stay
	marked := false
	for line := range strings.Lines(servers) {
		if !strings.HasPrefix(line, "  ->") {
			marked = strings.HasPrefix(line, "FWM") && !strings.HasPrefix(line, "FWM  77 ")
		}
		if !marked || strings.HasPrefix(line, "  -> RemoteAddress") {
			kept = append(kept, line)
		}
	}
	if diff := cmp.Diff(strings.Join(kept, ""), tool(t, "ipvsadm -Ln")); diff != "" {
		t.Errorf("servers: %s", diff)
	}
	if sets := tool(t, "ipset list -n"); strings.Contains(sets, "KIPVS-") || !strings.Contains(sets, "KUBE-6-CLUSTER-IP\n") {
		t.Errorf("sets: %s", sets)
	}
	if set := tool(t, "ipset list KUBE-CLUSTER-IP -o save -s"); !strings.Contains(grown, "maxelem 131072") || !strings.Contains(set, "maxelem 65536") ||
		additions(set) != additions(grown) {
		t.Errorf("a set that had grown, %s is left as %s", grown, set)
	}
	for _, save := range []string{"iptables-save", "ip6tables-save"} {
		rules := tool(t, save)
		if strings.Contains(rules, "KIPVS-") || !strings.Contains(rules, "-j KUBE-SERVICES\n") || !strings.Contains(rules, "--dst-type LOCAL -j KUBE-NODE-PORT\n") {
			t.Errorf("%s: %s", save, rules)
		}
	}
	if addrs := tool(t, "ip -o address show dev kube-ipvs0"); !strings.Contains(addrs, " 10.96.0.10/32 ") || !strings.Contains(addrs, " 203.0.113.") {
		t.Errorf("addresses: %s", addrs)
	}
	if rules := tool(t, "ip rule") + tool(t, "ip route show table all"); strings.Contains(rules, "18768") {
		t.Errorf("capture is left: %s", rules)
	}
	servedByKubeProxy(t)
	settle(t) // adopts it all again
	if a := command(t, "verify"); a.code != 0 {
		t.Errorf("verify after that: %+v", a)
	}
}

// growSet gives a set twice its size, and returns it as ipset saves it.
func growSet(t *testing.T, name string) string {
	t.Helper()
	script := strings.ReplaceAll("ipset save NAME | sed 's/NAME/GROWN/; s/maxelem 65536/maxelem 131072/' | ipset restore && "+
		"ipset swap GROWN NAME && ipset destroy GROWN && ipset list NAME -o save -s", "NAME", name)
	out, err := lab.Host(N).Exec(context.Background(), "sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// additions are the lines that add entries.
func additions(saved string) string {
	var lines strings.Builder
	for line := range strings.Lines(saved) {
		if strings.HasPrefix(line, "add ") {
			lines.WriteString(line)
		}
	}
	return lines.String()
}
