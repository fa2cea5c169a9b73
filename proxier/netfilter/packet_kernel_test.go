//go:build kernel

package netfilter

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/ipsetutil"
)

// These tests send packets through the rules without IPVS: a listener of the node
// stands where IPVS would take the packet.

// eachFamily runs the test for each family, on a node with rules of each back end.
func eachFamily(t *testing.T, test func(t *testing.T, h *host, client *room, i int)) {
	for _, backend := range []Backend{BackendNFT, BackendLegacy} {
		t.Run(string(backend), func(t *testing.T) {
			client := newLab(t)
			h := newHost(t, backend)
			h.flags.IPVSMatch = false // no packet here is IPVS's
			h.ensured()
			for i, ipv6 := range []bool{false, true} {
				// Not t.Run, whose goroutine would be in another namespace.
				t.Log(familyName(ipv6))
				test(t, h, client, i)
			}
		})
	}
}

// want compares an answer.
func want(t *testing.T, who, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", who, got, want)
	}
}

// frontend is an entry of hash:ip,port.
func frontend(addr string, port int) string { return fmt.Sprintf("%s,tcp:%d", addr, port) }

func TestRefuse(t *testing.T) {
	eachFamily(t, func(t *testing.T, h *host, client *room, i int) {
		refused := ipsetutil.Refuse.Name(i == 1)
		member(t, refused, frontend(boundAddr[i], 81))
		member(t, refused, frontend(outerAddr[i], 81))
		member(t, refused, fmt.Sprintf("%s,udp:81", boundAddr[i]))
		start := time.Now()
		for range 20 { // more than ICMP answers in a second
			want(t, "node to a bound address", ask("", boundAddr[i], 81, 0), "refused")
			want(t, "node to an outer address", ask("", outerAddr[i], 81, 0), "refused")
			want(t, "client", client.ask(clientAddr[i], boundAddr[i], 81), "refused")
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("60 refusals took %v", took)
		}
		if n := h.hits(i == 1, "filter", chainRefuseOut, "tcp-reset"); n != 40 {
			t.Errorf("%d of the node's 40 requests were reset by the rule", n)
		}
		client.do(func() { want(t, "client UDP", askUDP(boundAddr[i], 81), "refused") })
	})
}

// TestCaseC7CapturedUDPIsRefused: an address that is captured is none of the node's, and
// clients are told all the same that nobody serves.
func TestCaseC7CapturedUDPIsRefused(t *testing.T) {
	eachFamily(t, func(t *testing.T, h *host, client *room, i int) {
		command(t, "", "sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1",
			"net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.node0.send_redirects=0") // they count for the limit of ICMP
		family, full := []string{"-4", "-6"}[i], []string{"/32", "/128"}[i]
		command(t, "", "ip", family, "rule", "add", "fwmark", hexMark(h.flags.Marks.Capture)+"/"+hexMark(h.flags.Marks.Capture), "lookup", "99")
		command(t, "", "ip", family, "route", "add", "local", outerAddr[i]+full, "dev", "lo", "table", "99")
		for _, kind := range []ipsetutil.Kind{ipsetutil.Capture, ipsetutil.Refuse} {
			member(t, kind.Name(i == 1), fmt.Sprintf("%s,udp:81", outerAddr[i]))
		}
		client.do(func() { want(t, "client UDP", askUDP(outerAddr[i], 81), "refused") })
	})
}

func TestGuard(t *testing.T) {
	eachFamily(t, func(t *testing.T, _ *host, client *room, i int) {
		defer serve(t, 80, 2222)()
		member(t, ipsetutil.IPVSIPs.Name(i == 1), boundAddr[i])
		member(t, ipsetutil.IPVSIPs.Name(i == 1), nodeAddr[i])
		member(t, ipsetutil.ClusterIP.Name(i == 1), frontend(boundAddr[i], 80))
		member(t, ipsetutil.ClusterIP.Name(i == 1), frontend(nodeAddr[i], 80))
		want(t, "client to the Service", client.ask(clientAddr[i], boundAddr[i], 80), "80")
		want(t, "client to a listener of the node", client.ask(clientAddr[i], boundAddr[i], 2222), "refused")
		want(t, "node to a listener of its own", ask("", boundAddr[i], 2222, 0), "refused")
		client.do(func() {
			want(t, "client UDP", askUDP(boundAddr[i], 2222), "refused")
			want(t, "ping", ping(boundAddr[i]), "answered")
			if err := try("", "ip", "neigh", "flush", "dev", "client0"); err != nil {
				t.Error(err)
			}
		})
		want(t, "client after its neighbour table was emptied", client.ask(clientAddr[i], nodeAddr[i], 80), "80")
	})
}

// Node processes pass no INPUT on their way to a virtual server, so external Local is
// not asked from there.
func TestTrafficPolicy(t *testing.T) {
	eachFamily(t, func(t *testing.T, _ *host, client *room, i int) {
		defer serve(t, 82, 83)()
		member(t, ipsetutil.DropAll.Name(i == 1), frontend(boundAddr[i], 82))
		member(t, ipsetutil.DropOutside.Name(i == 1), frontend(boundAddr[i], 83))
		want(t, "node, internal Local", ask("", boundAddr[i], 82, 0), "dropped")
		want(t, "client, internal Local", client.ask(clientAddr[i], boundAddr[i], 82), "dropped")
		want(t, "pod, internal Local", client.ask(podAddr[i], boundAddr[i], 82), "dropped")
		want(t, "client, external Local", client.ask(clientAddr[i], boundAddr[i], 83), "dropped")
		want(t, "pod, external Local", client.ask(podAddr[i], boundAddr[i], 83), "83")
	})
}

// TestStatement63SourceRanges judges node processes whatever source they choose.
func TestStatement63SourceRanges(t *testing.T) {
	eachFamily(t, func(t *testing.T, _ *host, client *room, i int) {
		defer serve(t, 84, 85)()
		fw, cidr := ipsetutil.LoadBalancerFW.Name(i == 1), ipsetutil.LoadBalancerSourceCIDR.Name(i == 1)
		member(t, ipsetutil.LoadBalancer.Name(i == 1), frontend(boundAddr[i], 84))
		member(t, fw, frontend(boundAddr[i], 84))
		member(t, cidr, frontend(boundAddr[i], 84)+","+clientAddr[i])
		want(t, "client in the ranges", client.ask(clientAddr[i], boundAddr[i], 84), "84")
		want(t, "pod outside", client.ask(podAddr[i], boundAddr[i], 84), "dropped")
		want(t, "node outside", ask("", boundAddr[i], 84, 0), "dropped")
		want(t, "node outside, chosen source", ask(nodeAddr[i], boundAddr[i], 84, 0), "dropped")
		want(t, "node, other port of the address", ask("", boundAddr[i], 85, 0), "85")
		member(t, cidr, frontend(boundAddr[i], 84)+","+nodeAddr[i])
		member(t, ipsetutil.LoadBalancerSourceIP.Name(i == 1), frontend(boundAddr[i], 84)+","+boundAddr[i])
		want(t, "node inside", ask("", boundAddr[i], 84, 0), "84")
		want(t, "node inside, chosen source", ask(nodeAddr[i], boundAddr[i], 84, 0), "84")
	})
}

func TestStatement106InputPolicyDrop(t *testing.T) {
	eachFamily(t, func(t *testing.T, h *host, client *room, i int) {
		defer serve(t, 80, 2222, 30080, 31999)()
		h.run(i == 1, "-A", "INPUT", "-m", "conntrack", "--ctstate", "ESTABLISHED", "-j", "ACCEPT")
		if i == 1 {
			h.run(true, "-A", "INPUT", "-p", "ipv6-icmp", "-j", "ACCEPT")
		}
		h.run(i == 1, "-P", "INPUT", "DROP")
		member(t, ipsetutil.ClusterIP.Name(i == 1), frontend(boundAddr[i], 80))
		member(t, ipsetutil.NodeIP.Name(i == 1), nodeAddr[i])
		member(t, ipsetutil.NodePortTCP.Name(i == 1), "30080")
		member(t, ipsetutil.HealthCheckNodePort.Name(i == 1), "31999")
		want(t, "pod to a ClusterIP", client.ask(podAddr[i], boundAddr[i], 80), "80")
		want(t, "client to a NodePort", client.ask(clientAddr[i], nodeAddr[i], 30080), "30080")
		want(t, "client to that port elsewhere", client.ask(clientAddr[i], boundAddr[i], 30080), "dropped")
		want(t, "health check", client.ask(clientAddr[i], nodeAddr[i], 31999), "31999")
		want(t, "what is no Service's", client.ask(clientAddr[i], nodeAddr[i], 2222), "dropped")
	})
}

// TestHostPortDoesNotTakeServices: a hostPort rule matches all local addresses.
func TestHostPortDoesNotTakeServices(t *testing.T) {
	eachFamily(t, func(t *testing.T, h *host, client *room, i int) {
		defer serve(t, 80, 443, 2222)()
		for _, chain := range []string{"PREROUTING", "OUTPUT"} {
			h.run(i == 1, "-t", "nat", "-A", chain, "-p", "tcp", "-m", "multiport", "--dports", "80,443",
				"-m", "addrtype", "--dst-type", "LOCAL", "-j", "REDIRECT", "--to-ports", "2222")
		}
		member(t, ipsetutil.ClusterIP.Name(i == 1), frontend(boundAddr[i], 80))
		want(t, "pod to the Service", client.ask(podAddr[i], boundAddr[i], 80), "80")
		want(t, "node to the Service", ask("", boundAddr[i], 80, 0), "80")
		want(t, "client to the hostPort", client.ask(clientAddr[i], nodeAddr[i], 443), "2222")
	})
}

// hits returns how many packets a rule of a chain has matched that contains text.
func (h *host) hits(ipv6 bool, table, chain, text string) int {
	h.t.Helper()
	for line := range strings.Lines(h.run(ipv6, "-t", table, "-v", "-S", chain)) {
		if !strings.Contains(line, text) {
			continue
		}
		_, counters, _ := strings.Cut(line, " -c ")
		n, err := strconv.Atoi(strings.Fields(counters)[0])
		if err != nil {
			h.t.Fatal(err)
		}
		return n
	}
	h.t.Fatalf("no rule with %q in %s", text, chain)
	return 0
}

// TestMasqueradeMarks looks at the mark that nat PREROUTING leaves on a first packet.
func TestMasqueradeMarks(t *testing.T) {
	eachFamily(t, func(t *testing.T, h *host, client *room, i int) {
		v6 := i == 1
		member(t, ipsetutil.ClusterIP.Name(v6), frontend(boundAddr[i], 30080))
		member(t, ipsetutil.ExternalIP.Name(v6), frontend(boundAddr[i], 91))
		member(t, ipsetutil.ExternalIPLocal.Name(v6), frontend(boundAddr[i], 92))
		member(t, ipsetutil.LoadBalancer.Name(v6), frontend(boundAddr[i], 93))
		member(t, ipsetutil.LoadBalancer.Name(v6), frontend(boundAddr[i], 94))
		member(t, ipsetutil.LoadBalancerLocal.Name(v6), frontend(boundAddr[i], 94))
		member(t, ipsetutil.NodeIP.Name(v6), nodeAddr[i])
		member(t, ipsetutil.NodePortTCP.Name(v6), "30080")
		member(t, ipsetutil.NodePortTCP.Name(v6), "30081")
		member(t, ipsetutil.NodePortLocalTCP.Name(v6), "30081")
		h.run(v6, "-t", "mangle", "-A", "INPUT", "-m", "mark", "--mark", "0x4000/0x4000")
		before := 0
		for _, c := range []struct {
			who        string
			source, to string
			port       int
			marked     bool
		}{
			{"pod to a ClusterIP whose port is a NodePort's", podAddr[i], boundAddr[i], 30080, false},
			{"client to a ClusterIP", clientAddr[i], boundAddr[i], 30080, true},
			{"pod to an external IP", podAddr[i], boundAddr[i], 91, true},
			{"client to an external IP, Local", clientAddr[i], boundAddr[i], 92, false},
			{"client to a load balancer", clientAddr[i], boundAddr[i], 93, true},
			{"client to a load balancer, Local", clientAddr[i], boundAddr[i], 94, false},
			{"client to a NodePort", clientAddr[i], nodeAddr[i], 30080, true},
			{"client to a NodePort, Local", clientAddr[i], nodeAddr[i], 30081, false},
			{"client to a port of the node", clientAddr[i], nodeAddr[i], 22, false},
		} {
			client.ask(c.source, c.to, c.port)
			after := h.hits(v6, "mangle", "INPUT", "0x4000/0x4000")
			if got := after > before; got != c.marked {
				t.Errorf("%s: marked %v, want %v", c.who, got, c.marked)
			}
			before = after
		}
	})
}

// foreignMark is a network plugin's.
const foreignMark = 0x1000000

// TestShortCircuitOfPods wants the member's mark alone where IPVS looks, for pods only.
func TestShortCircuitOfPods(t *testing.T) {
	eachFamily(t, func(t *testing.T, h *host, client *room, i int) {
		v6 := i == 1
		h.run(v6, "-t", "mangle", "-A", "PREROUTING", "-j", "MARK", "--or-mark", fmt.Sprint(foreignMark))
		h.run(v6, "-t", "security", "-A", "INPUT", "-m", "mark", "--mark", "0x7")
		member(t, ipsetutil.ExternalIPLocal.Name(v6), frontend(boundAddr[i], 86))
		member(t, ipsetutil.ShortCircuit.Name(v6), frontend(boundAddr[i], 86), "skbmark", "0x7/0xffffffff")
		for _, c := range []struct {
			who, source string
			marked      bool
		}{{"pod", podAddr[i], true}, {"client", clientAddr[i], false}} {
			before := h.hits(v6, "security", "INPUT", "0x7")
			client.ask(c.source, boundAddr[i], 86)
			if got := h.hits(v6, "security", "INPUT", "0x7") > before; got != c.marked {
				t.Errorf("%s: marked %v, want %v", c.who, got, c.marked)
			}
		}
	})
}

// TestShortCircuitOfNodeProcesses follows a request that carries a foreign mark: the
// member's mark alone where IPVS looks, the foreign mark and the masquerade bit after.
func TestShortCircuitOfNodeProcesses(t *testing.T) {
	eachFamily(t, func(t *testing.T, h *host, _ *room, i int) {
		v6 := i == 1
		member(t, ipsetutil.ShortCircuit.Name(v6), frontend(outerAddr[i], 87), "skbmark", "0x7/0xffffffff")
		h.run(v6, "-t", "mangle", "-A", "OUTPUT", "-m", "mark", "--mark", "0x7")
		for _, mark := range []string{"0x1004000", "0x4000"} {
			h.run(v6, "-t", "mangle", "-A", "POSTROUTING", "-p", "tcp", "-m", "tcp", "--dport", "87", "-m", "mark", "--mark", mark)
		}
		h.run(v6, "-t", "nat", "-I", chainKubePostrt, "4", "-p", "tcp", "-m", "tcp", "--dport", "87", "-m", "mark", "--mark", "0x1004000/0x1004000")
		ask("", outerAddr[i], 87, foreignMark)
		if h.hits(v6, "mangle", "OUTPUT", "0x7") == 0 {
			t.Error("the member's mark was not alone where IPVS looks")
		}
		if h.hits(v6, "mangle", "POSTROUTING", "0x1004000") == 0 || h.hits(v6, "nat", chainKubePostrt, "0x1004000") == 0 {
			t.Error("the foreign mark and the masquerade bit did not come")
		}
		if h.hits(v6, "mangle", "POSTROUTING", "mark 0x4000 ") != 0 {
			t.Error("a packet lost its foreign mark")
		}
		marked := h.hits(v6, "mangle", "OUTPUT", "0x7")
		member(t, ipsetutil.Refuse.Name(v6), frontend(outerAddr[i], 88))
		member(t, ipsetutil.ShortCircuit.Name(v6), frontend(outerAddr[i], 88), "skbmark", "0x7/0xffffffff")
		ask("", outerAddr[i], 88, 0)
		if h.hits(v6, "mangle", "OUTPUT", "0x7") != marked {
			t.Error("a request that is to be refused got a mark")
		}
		ask("", outerAddr[i], 87, 0)
		if h.hits(v6, "mangle", "POSTROUTING", "mark 0x4000 ") == 0 {
			t.Error("a foreign mark came from nowhere")
		}
	})
}
