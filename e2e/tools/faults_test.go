//go:build kernel

package tools

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// fault is one thing that is wrong with a settled node, and the command that names it.
type fault struct {
	name string
	// plant are lines that damage the kernel; undo takes them back where a settling
	// agent would not; act does what takes more than a line. Faults of objects are in
	// faultyServices instead.
	plant, undo []string
	act         func(*testing.T)
	ask         string
	// says is what the command prints, with single blanks.
	says string
}

// faults come in rounds of those that do not hide one another: where the kernel is
// emulated each command takes seconds.
var faults = [][]fault{kernelFaults, hostFaults, objectFaults, deviceFaults}

// ofObjects is the round of objectFaults.
const ofObjects = 2

var kernelFaults = []fault{
	{name: "weight 0", plant: []string{"ipvsadm -e -t 10.96.0.10:80 -r 10.244.2.10:8080 -m -w 0"}, ask: "verify",
		says: "real server 10.96.0.10:80/tcp -> 10.244.2.10:8080 (shop/web) want weight 1, have weight 0: this endpoint gets no new connections"},
	{name: "real server missing", plant: []string{"ipvsadm -d -t 10.96.0.10:80 -r 10.244.1.10:8080"}, ask: "verify",
		says: "real server 10.96.0.10:80/tcp -> 10.244.1.10:8080 (shop/web) want weight 1, have missing: this endpoint gets no connections"},
	{name: "stranger as real server", plant: []string{"ipvsadm -a -t 10.96.0.10:80 -r 10.244.3.99:8080 -m"}, ask: "verify",
		says: "-> 10.244.3.99:8080 (shop/web) want nothing, have weight 1: connections go to an endpoint that is none of the Service"},
	{name: "persistence lost", plant: []string{"ipvsadm -E -t 10.96.0.10:80 -s rr"}, ask: "verify",
		says: "want rr persistent 10800, have rr: clients are not kept at one endpoint (session affinity)"},
	{name: "wrong scheduler", plant: []string{"ipvsadm -E -t 10.96.0.20:80 -s wlc"}, ask: "verify",
		says: "virtual server 10.96.0.20:80/tcp (shop/front) want rr, have wlc: new connections are spread by wlc instead of rr"},
	{name: "thresholds", plant: []string{"ipvsadm -e -t 10.96.0.20:80 -r 10.244.2.10:8080 -m -x 9 -y 3"}, ask: "verify",
		says: "have other forwarding or thresholds: packets to this endpoint are not translated"},
	{name: "virtual server missing", plant: []string{"ipvsadm -D -t [fd96::10]:80"}, ask: "verify",
		says: "virtual server [fd96::10]:80/tcp (shop/web) want rr persistent 10800, have missing"},
	{name: "virtual server of nobody", plant: []string{"ipvsadm -A -t 10.96.0.10:81 -s rr"}, ask: "verify",
		says: "virtual server 10.96.0.10:81/tcp want nothing, have rr: no Service has it any more"},
	{name: "set entry missing", plant: []string{"ipset del KUBE-CLUSTER-IP 10.96.0.10,tcp:80"}, ask: "verify",
		says: "set entry KUBE-CLUSTER-IP 10.96.0.10,tcp:80 (shop/web) want there, have missing: clients outside of the pods are not masqueraded"},
	{name: "set entry too much", plant: []string{"ipset add KIPVS-REFUSE 10.96.0.10,tcp:80"}, ask: "verify",
		says: "set entry KIPVS-REFUSE 10.96.0.10,tcp:80 (shop/web) want nothing, have there: all clients are refused"},
	{name: "source range lost", plant: []string{"ipset del KUBE-LOAD-BALANCER-SOURCE-CIDR 203.0.113.7,tcp:80,172.30.0.0/16"}, ask: "verify",
		says: "clients of this source range are dropped"},
	{name: "short circuit lost", plant: []string{"ipset del KIPVS-SHORT-CIRCUIT 203.0.113.7,tcp:80"}, ask: "verify",
		says: "clients on this node reach only the endpoints on it"},
	{name: "address missing", plant: []string{"ip address del 10.96.0.53/32 dev kube-ipvs0"}, ask: "verify",
		says: "address 10.96.0.53 want bound, have missing: packets to it leave the node"},
	{name: "address of nobody", plant: []string{"ip address add 10.96.0.99/32 dev kube-ipvs0"}, ask: "verify",
		says: "address 10.96.0.99 want nothing, have bound: no Service has it"},
	{name: "captured address missing", plant: []string{"ip route del local 203.0.113.7 table 18768"}, ask: "verify",
		says: "route 203.0.113.7 want captured, have missing"},
	{name: "policy rule missing", plant: []string{"ip rule del fwmark 0x8000/0x8000"}, ask: "verify",
		says: "policy rule IPv4 capture want there, have missing"},
	{name: "foreign jump first", plant: []string{"iptables -t nat -I PREROUTING -j RETURN"}, undo: []string{"iptables -t nat -D PREROUTING -j RETURN"}, ask: "verify",
		says: "jumps from PREROUTING are not as they should be rules of others come first"},
	{name: "rule replaced", plant: []string{"ip6tables -t filter -R KIPVS-FRONTENDS 3 -j RETURN"}, ask: "verify",
		says: "rule 3 of chain KIPVS-FRONTENDS"},
	{name: "chain flushed", plant: []string{"iptables -t mangle -F KIPVS-INPUT"}, ask: "verify",
		says: "chain KIPVS-INPUT has 0 rules"},
	{name: "setting reset", plant: []string{"sysctl -qw net.ipv4.vs.conntrack=0"}, ask: "verify",
		says: "setting net.ipv4.vs.conntrack want 1, have 0: connections are not masqueraded"},
	{name: "stale UDP flow", plant: []string{"conntrack -I -p udp -t 600 --src 10.244.1.5 --dst 10.96.0.53 --sport 5555 --dport 53 " +
		"--reply-src 10.244.9.9 --reply-dst 10.244.1.5 --reply-port-src 53 --reply-port-dst 5555"},
		undo: []string{"conntrack -D -p udp --dst 10.96.0.53"}, ask: "explain kube-system/dns",
		says: "flow 10.96.0.53:53/udp -> 10.244.9.9:53: want nothing, have 1 in conntrack"},
	{name: "weight 0, asked by its Service", ask: "explain shop/web --to 10.96.0.10",
		says: "differs real server 10.96.0.10:80/tcp -> 10.244.2.10:8080: want weight 1, have weight 0: this endpoint gets no new connections"},
	{name: "policy rule missing, asked by its Service", ask: "explain shop/front --to 203.0.113.9 --from outside",
		says: "verdict differs from plan: policy rule IPv4 capture: external addresses that the node does not own are not served here"},
}

const doctorAsk = "doctor --accept-input=false"

var hostFaults = []fault{
	{name: "FORWARD drops", plant: []string{"iptables -P FORWARD DROP"}, undo: []string{"iptables -P FORWARD ACCEPT"}, ask: doctorAsk,
		says: "note IPv4 policy of filter FORWARD is DROP"},
	{name: "INPUT drops", plant: []string{"ip6tables -P INPUT DROP"}, undo: []string{"ip6tables -P INPUT ACCEPT"}, ask: doctorAsk,
		says: "warning IPv6 policy of filter INPUT is DROP"},
	{name: "chains of another proxy", plant: []string{"iptables -t nat -N KUBE-SVC-AAAA"}, undo: []string{"iptables -t nat -X KUBE-SVC-AAAA"}, ask: doctorAsk,
		says: "warning chains of kube-proxy's iptables mode are here: 1 (first: IPv4 nat KUBE-SVC-AAAA): a kube-proxy runs beside this proxy"},
	{name: "tables of another proxy", plant: []string{"nft add table ip kube-proxy"}, undo: []string{"nft delete table ip kube-proxy"}, ask: doctorAsk,
		says: "warning nftables tables of kube-proxy are here (ip kube-proxy)"},
	{name: "rules of Services in the other back end", plant: []string{"iptables-nft -t mangle -N KUBE-KUBELET-CANARY",
		"iptables-legacy -t nat -N KUBE-SERVICES", "iptables-legacy -t nat -A KUBE-SERVICES -j RETURN"},
		undo: []string{"iptables-nft -t mangle -X KUBE-KUBELET-CANARY", "iptables-legacy -t nat -F KUBE-SERVICES", "iptables-legacy -t nat -X KUBE-SERVICES"}, ask: doctorAsk,
		says: "fault iptables back ends are mixed: nft is the one to use (the kubelet has the chain KUBE-KUBELET-CANARY), " +
			"but legacy has rules of Services (KUBE-SERVICES), which packets pass as well: take them out on the node (iptables-legacy-save |"},
	{name: "asymmetric routes with rp_filter", act: loseRequest,
		undo: []string{"sysctl -qw net.ipv4.conf.all.rp_filter=0", "ip route del 172.30.0.5/32 dev cbr0"}, ask: doctorAsk,
		says: "packets came by another device than the way back to their source, and were dropped in silence"},
	{name: "short idle limit", plant: []string{"ipvsadm --set 60 30 30"}, undo: []string{"ipvsadm --set 900 120 300"}, ask: doctorAsk,
		says: "warning IPVS forgets TCP connections that are idle for 60 s"},
	{name: "ports of the node overlap NodePorts", plant: []string{"sysctl -qw net.ipv4.ip_local_port_range=20000\u00a060999", "sysctl -qw net.ipv4.ip_local_reserved_ports=8080"},
		undo: []string{"sysctl -qw net.ipv4.ip_local_port_range=32768\u00a060999"}, ask: doctorAsk,
		says: "warning the node takes ports 20000-60999 for its own connections, NodePorts are 30000-32767"},
	{name: "MTU", plant: []string{"ip link set eth0 mtu 1400"}, undo: []string{"ip link set eth0 mtu 1500"}, ask: doctorAsk,
		says: "warning pods of this node send packets of up to 1500 bytes (cbr0), and the way to 10.244.2.10 by eth0 takes 1400"},
	{name: "conntrack nearly full", act: fill, undo: []string{"conntrack -F"}, ask: doctorAsk,
		says: "warning the conntrack table is nearly full ("},
	{name: "no agent", ask: doctorAsk, says: "fault the agent does not answer as a healthy one"},
	{name: "ARP for addresses of an L2 load balancer", plant: []string{"ip address add 203.0.113.7/32 dev kube-ipvs0"}, undo: []string{"ip address del 203.0.113.7/32 dev kube-ipvs0"},
		ask:  "doctor --external-address-mode=bind",
		says: "load balancers' addresses are bound to kube-ipvs0 (203.0.113.7) and the node answers ARP for them"},
}

var objectFaults = []fault{
	{name: "internalTrafficPolicy Local, nobody here", ask: "explain faulty/internal",
		says: "verdict dropped: internalTrafficPolicy is Local and no endpoint is on this node"},
	{name: "externalTrafficPolicy Local, nobody here", ask: "explain faulty/external --from outside --to 203.0.113.51",
		says: "verdict dropped: externalTrafficPolicy is Local and no endpoint is on this node"},
	{name: "source range", ask: "explain faulty/ranges --from 172.30.0.5 --to 203.0.113.52",
		says: "verdict dropped: loadBalancerSourceRanges do not hold the client"},
	{name: "pods not ready", ask: "explain faulty/unready",
		says: "endpoint 10.244.1.10:8080 pod late-1 on node-1: not used: it is not ready kernel as planned"},
	{name: "no endpoints", ask: "explain faulty/none",
		says: `no EndpointSlice has an endpoint with port name "http" and protocol tcp`},
	{name: "conflict", ask: "explain faulty/younger",
		says: "verdict not served: Service shop/web has this address and port"},
	{name: "conflict, asked of the node", ask: "doctor",
		says: "warning claimed by several Services: 10.96.0.10:80/tcp is served for shop/web and not for faulty/younger"},
}

var deviceFaults = []fault{
	{name: "device gone", plant: []string{"ip link del kube-ipvs0"}, ask: "verify",
		says: "device kube-ipvs0 want there, have missing"},
	{name: "jump gone", plant: []string{"iptables -t filter -D INPUT -j KUBE-IPVS-FILTER -m comment --comment kubernetes\u00a0ipvs\u00a0access\u00a0filter"}, ask: "verify",
		says: "jumps from INPUT are not as they should be"},
	{name: "sets swapped", plant: []string{"ipset swap KUBE-LOAD-BALANCER KUBE-EXTERNAL-IP"}, ask: "verify",
		says: "set entry KUBE-LOAD-BALANCER 203.0.113.7,tcp:80 (shop/front) want there, have missing"},
	{name: "device gone, asked by a Service", ask: "explain shop/web --to 10.96.0.10",
		says: "verdict differs from plan: device kube-ipvs0: addresses on it are gone: clients of ClusterIPs time out or reach another host"},
}

// faultyServices have what objectFaults say. Where an endpoint is named there is a slice.
var faultyServices = []struct{ metadata, spec, ingress, endpoint string }{
	{"name: internal", "clusterIP: 10.96.0.50, internalTrafficPolicy: Local", "", "addresses: [10.244.2.10], nodeName: node-2"},
	{"name: external", "clusterIP: 10.96.0.51, type: LoadBalancer, externalTrafficPolicy: Local", "ip: 203.0.113.51", "addresses: [10.244.2.10], nodeName: node-2"},
	{"name: ranges", "clusterIP: 10.96.0.52, type: LoadBalancer, loadBalancerSourceRanges: [198.51.100.0/24]", "ip: 203.0.113.52", "addresses: [10.244.1.10], nodeName: node-1"},
	{"name: unready", "clusterIP: 10.96.0.54", "", "addresses: [10.244.1.10], nodeName: node-1, targetRef: {kind: Pod, name: late-1}, conditions: {ready: false, serving: false}"},
	{"name: none", "clusterIP: 10.96.0.55", "", ""},
	{`name: younger, creationTimestamp: "2026-01-01T00:00:00Z"`, "clusterIP: 10.96.0.56, externalIPs: [10.96.0.10]", "", ""},
}

// faultyManifest has them in the namespace faulty.
func faultyManifest() string {
	var b strings.Builder
	for _, s := range faultyServices {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Service\nmetadata: {namespace: faulty, %s}\nspec: {%s, ports: [{name: http, port: 80}]}\n", s.metadata, s.spec)
		if s.ingress != "" {
			fmt.Fprintf(&b, "status: {loadBalancer: {ingress: [{%s}]}}\n", s.ingress)
		}
		if s.endpoint != "" {
			name := strings.TrimPrefix(s.metadata, "name: ")
			fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {namespace: faulty, name: %[1]s-4, labels: {kubernetes.io/service-name: %[1]s}}\n"+
				"addressType: IPv4\nports: [{name: http, port: 8080}]\nendpoints: [{%[2]s}]\n", name, s.endpoint)
		}
	}
	return b.String()
}

// TestPlantedFaults: each is named by the command that an operator would ask, and none
// of that is said of a settled node.
func TestPlantedFaults(t *testing.T) {
	settle(t)
	if a := command(t, "verify"); a.code != 0 || !strings.Contains(a.out, "kernel equals the plan") {
		t.Fatalf("verify on a settled node: %+v", a)
	}
	if a := command(t, "plan"); a.code != 0 || work(a) != 0 {
		t.Errorf("plan on a settled node: %+v", a)
	}
	healthy := flat(command(t, "status").out)
	if strings.Contains(healthy, "fault ") || !strings.Contains(healthy, "ok the kernel equals the plan") {
		t.Errorf("status on a settled node: %s", healthy)
	}
	for n, round := range faults {
		if n == ofObjects {
			if err := lab.Manifests.ApplyText("faulty", faultyManifest()); err != nil {
				t.Fatal(err)
			}
			settle(t)
		}
		plantAll(t, round)
		before := ""
		if n == 0 {
			before = state(t)
		}
		answers := askAll(t, round)
		for _, f := range round {
			a := answers[f.ask]
			t.Run(f.name, func(t *testing.T) {
				if !strings.Contains(flat(a.out), f.says) {
					t.Errorf("%s does not say %q:\n%s%s", f.ask, f.says, a.out, a.errors)
				}
				if strings.Contains(healthy, f.says) {
					t.Errorf("it is said of a settled node, too: %q", f.says)
				}
			})
		}
		checkCodes(t, answers)
		if n == 0 {
			if planned := command(t, "plan"); planned.code != 0 || work(planned) < len(kernelFaults)-3 {
				t.Errorf("plan: %+v", planned)
			}
			if state(t) != before {
				t.Error("a command that looks changed the kernel")
			}
		}
		for _, f := range round {
			for _, line := range f.undo {
				plant(t, line)
			}
		}
		if n == ofObjects {
			if err := lab.Manifests.Remove("faulty"); err != nil {
				t.Fatal(err)
			}
		}
		settle(t)
	}
	if a := command(t, "verify"); a.code != 0 {
		t.Errorf("after all were mended: %+v", a)
	}
}

func plantAll(t *testing.T, round []fault) {
	t.Helper()
	for _, f := range round {
		for _, line := range f.plant {
			plant(t, line)
		}
		if f.act != nil {
			f.act(t)
		}
	}
}

// askAll asks each question of the round once.
func askAll(t *testing.T, round []fault) map[string]answer {
	t.Helper()
	answers := map[string]answer{}
	for _, f := range round {
		if _, asked := answers[f.ask]; !asked {
			words := strings.Fields(f.ask)
			answers[f.ask] = command(t, words[0], words[1:]...)
		}
	}
	return answers
}

// checkCodes: verify and doctor tell scripts by their exit status.
func checkCodes(t *testing.T, answers map[string]answer) {
	t.Helper()
	for ask, a := range answers {
		want := 1
		if strings.HasPrefix(ask, "explain") {
			want = 0
		}
		if a.code != want {
			t.Errorf("%s ended with %d: %s", ask, a.code, a.errors)
		}
		// Any difference that is not fine has verify end with 1. One setting of the whole
		// machine is fine here, and what an earlier round planted may still drain.
		said := strings.NewReplacer("nf_conntrack_max fine: ", "", "fine: want nothing, have draining: ", "").Replace(flat(a.out))
		if ask == "verify" && strings.Contains(said, "fine: ") {
			t.Errorf("verify takes a fault for none: %s", a.out)
		}
	}
}

// plant runs a line on the node; the no-break space stands for one within an argument.
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

// loseRequest has the client send a request against the way back, after one that has the two
// know each other's hardware address: for want of that nothing would be counted.
func loseRequest(t *testing.T) {
	t.Helper()
	ask := func(port uint16, limit time.Duration) probe.Outcome {
		to := netip.AddrPortFrom(lab.Host(N).Addr(testbed.IPv4), port)
		return lab.Host(testbed.Client).Probe.Do(probe.Call{Protocol: probe.TCP, To: to, Timeout: limit}).Outcome
	}
	const closed = 1
	if outcome := ask(closed, probe.DefaultTimeout); outcome != probe.Refused {
		t.Errorf("a request to a closed port: %v", outcome)
	}
	plant(t, "sysctl -qw net.ipv4.conf.all.rp_filter=1")
	plant(t, "ip route add 172.30.0.5/32 dev cbr0")
	if outcome := ask(30080, probe.DefaultTimeout/4); outcome != probe.Timeout {
		t.Errorf("a request against the way back: %v", outcome)
	}
}

// conntrackEntries are made to fill the table.
const conntrackEntries = 50

const conntrackMax = "/proc/sys/net/netfilter/nf_conntrack_max"

// fill opens flows that nobody answers, and covers the file that tells the size of the
// table until the test ends: the size itself is that of the whole machine, and no
// namespace may change it.
func fill(t *testing.T) {
	t.Helper()
	err := lab.Host(N).Do(func() error {
		for port := range conntrackEntries {
			c, err := net.Dial("udp", fmt.Sprintf("172.30.0.1:%d", 20000+port))
			if err != nil {
				return err
			}
			if _, err := c.Write([]byte("x")); err != nil {
				return err
			}
			if err := c.Close(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	count, err := lab.Host(N).Sysctl("net/netfilter/nf_conntrack_count")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	if _, err := fmt.Sscan(count, &n); err != nil || n < conntrackEntries {
		t.Fatalf("conntrack holds %q entries: %v", count, err)
	}
	size := filepath.Join(t.TempDir(), "max")
	if err := os.WriteFile(size, []byte(fmt.Sprintln(n*10/9)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := lab.Host(N).Do(func() error { return unix.Mount(size, conntrackMax, "", unix.MS_BIND, "") }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Host(N).Do(func() error { return unix.Unmount(conntrackMax, 0) }); err != nil {
			t.Error(err)
		}
	})
}
