//go:build kernel

package tools

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestToolsBesideAnAgent: they find nothing to say against a node that an agent keeps,
// and do not disturb it.
func TestToolsBesideAnAgent(t *testing.T) {
	if err := lab.Manifests.ApplyText("leaving", strings.ReplaceAll(leaving, "ENDPOINTS", "10.244.1.10")); err != nil {
		t.Fatal(err)
	}
	if err := lab.Proxy(N).Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := lab.Proxy(N).Stop(context.Background()); err != nil {
			t.Error(err)
		}
		if err := lab.Manifests.Remove("leaving"); err != nil {
			t.Error(err)
		}
		tool(t, "ipvsadm -D -t 10.96.0.90:80") // it lingers for the connection's sake
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
	asksTheAgent(t)
	started := countStarts(t)
	if a := start(t, program, "verify"); a.code != 0 || len(started()) != few["verify"] {
		t.Errorf("verify started more than %d programs: %+v", few["verify"], a)
	}
	errors := lab.Proxy(N).Log().Last(100, func(l string) bool { return strings.Contains(l, "level=ERROR") })
	if len(errors) > 0 {
		t.Errorf("the agent was disturbed: %q", errors)
	}
}

// asksTheAgent: without flags the commands see the node as the agent does, and know what
// it alone knows.
func asksTheAgent(t *testing.T) {
	t.Helper()
	address := netip.AddrPortFrom(lab.Host(testbed.PodL1).Addr(testbed.IPv4), 8080)
	server, err := lab.Host(testbed.PodL1).Serve(probe.TCP, address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	stream, err := lab.Host(testbed.PodC1).Hold(probe.Call{Protocol: probe.TCP, To: netip.MustParseAddrPort("10.96.0.90:80")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stream.Reset() }()
	if err := lab.Manifests.ApplyText("leaving", strings.ReplaceAll(leaving, "ENDPOINTS", "10.244.2.10")); err != nil {
		t.Fatal(err)
	}
	if err := lab.Settle(t.Context(), N); err != nil {
		t.Fatal(err)
	}
	for _, ask := range []struct {
		args []string
		says string
	}{
		{[]string{"verify"}, "kernel equals the plan"},
		{[]string{"list"}, "shop/leaving:http ClusterIP rr -> 10.244.1.10:8080 0 1 0 node-1"},
		{[]string{"list"}, ": it is no endpoint of the Service any more; ends in 14m"},
		{[]string{"explain", "shop/web"}, "verdict works"},
		{[]string{"__complete", "explain", "shop/l"}, "shop/leaving"},
		{[]string{"plan"}, "nothing was done"},
	} {
		if a := start(t, program, ask.args...); a.code != 0 || !strings.Contains(flat(a.out), ask.says) {
			t.Errorf("%v does not say %q: %+v", ask.args, ask.says, a)
		}
	}
}

// leaving is a Service whose endpoints go.
const leaving = `
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: leaving}
spec: {clusterIP: 10.96.0.90, clusterIPs: [10.96.0.90], ports: [{name: http, port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: leaving-4, labels: {kubernetes.io/service-name: leaving}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints: [{addresses: [ENDPOINTS], nodeName: node-1}]
`

// TestWithoutPermission: a user without rights is told what could not be read, and the
// rest is judged.
func TestWithoutPermission(t *testing.T) {
	settle(t)
	tool(t, "chmod -R a+rX "+filepath.Dir(program)) // the folder of the manifests, too
	as := []string{"--reuid=65534", "--regid=65534", "--clear-groups", program}
	for _, ask := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{"verify"}, 2, []string{"sets: could not be read", "rules: could not be read", "cannot be told whether the kernel equals the plan"}},
		{[]string{"explain", "shop/web", "--to", "10.96.0.10"}, 0, []string{"kernel sets could not be read", "endpoint 10.244.1.10:8080", "verdict works"}},
		{[]string{"status"}, 1, []string{"warning sets could not be read", "run this as root on the node"}},
		{[]string{"explain", "shop/wbe"}, 2, []string{"nearest: shop/web"}},
	} {
		a := start(t, "setpriv", append(append(slices.Clone(as), ask.args...), nodeArgs()...)...)
		for _, want := range ask.says {
			if !strings.Contains(flat(a.out+a.errors), want) {
				t.Errorf("%v does not say %q: %+v", ask.args, want, a)
			}
		}
		if a.code != ask.code {
			t.Errorf("%v ended with %d, want %d: %s", ask.args, a.code, ask.code, a.errors)
		}
	}
	if a := start(t, program, "explain", "shop/web"); a.code != 2 || !strings.Contains(a.errors, "no agent of this node answers") {
		t.Errorf("without an agent and without flags: %+v", a)
	}
}

// TestExplain asks about each kind of Service, and what was seen of it.
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
	for _, pod := range []string{testbed.PodL1, testbed.PodRm} {
		server, err := lab.Host(pod).Serve(probe.TCP, netip.AddrPortFrom(lab.Host(pod).Addr(testbed.IPv4), 8080))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = server.Close() }()
	}
	if r := lab.Host(testbed.PodC1).Probe.Do(probe.Call{Protocol: probe.TCP, To: netip.MustParseAddrPort("10.96.0.10:80")}); r.Outcome != probe.OK {
		t.Errorf("nobody answered: %v", r)
	}
	seen := flat(command(t, "explain", "shop/web", "--to", "10.96.0.10").out)
	for _, want := range []string{"counted packets by chain and set", "filter KIPVS-FRONTENDS KUBE-CLUSTER-IP ", "seen in IPVS 1 ", "; 1 in conntrack"} {
		if !strings.Contains(seen, want) {
			t.Errorf("after a request it does not say %q: %s", want, seen)
		}
	}
	if a := command(t, "explain", "shop/wbe"); a.code != 2 || !strings.Contains(a.errors, "nearest: shop/web") {
		t.Errorf("unknown: %+v", a)
	}
	if command(t, "verify").code != 0 {
		t.Error("explain changed something")
	}
}
