package main

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/reconcile"
)

const toldManifest = `
apiVersion: v1
kind: Service
metadata: {namespace: shop, name: web, annotations: {kube-ipvs-proxy/weights: "10.244.1.10=3", kube-ipvs-proxy/drain-timeout: 90s}}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10, "fd96::10"]
  loadBalancerSourceRanges: [198.51.100.0/24]
  sessionAffinity: ClientIP
  ports: [{name: http, port: 80, nodePort: 30080}, {name: dns, port: 53, protocol: UDP}]
status: {loadBalancer: {ingress: [{ip: 203.0.113.7}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {namespace: shop, name: web-4, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080}]
endpoints:
- {addresses: [10.244.1.10], nodeName: node-1, targetRef: {kind: Pod, name: web-1}, hints: {forZones: [{name: z1}]}}
---
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {topology.kubernetes.io/zone: z1}}
spec: {podCIDRs: [10.244.1.0/24]}
status: {addresses: [{type: InternalIP, address: 192.0.2.1}]}
`

// told is an agent's state after it went through the socket's encoding.
func told(t *testing.T) (*source, agentState) {
	t.Helper()
	options := config.Options{Manifests: folder(t, toldManifest), NodeName: "node-1"}
	read, err := openSource(t.Context(), options, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for !read.Synced() {
		<-read.Changed()
	}
	raw := config.Defaults()
	raw.ClusterCIDR, raw.Manifests, raw.NodePortRange = "10.244.0.0/16", options.Manifests, "31000-31999"
	teller := &teller{source: read, node: options.NodeName}
	teller.took(raw)
	state, err := teller.state()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	var arrived agentState
	if err := json.Unmarshal(text, &arrived); err != nil {
		t.Fatal(err)
	}
	return read, arrived
}

// TestAgentTellsAll: a command sees what the agent sees.
func TestAgentTellsAll(t *testing.T) {
	read, arrived := told(t)
	view, err := arrived.view()
	if err != nil {
		t.Fatal(err)
	}
	if view.options.NodeName != "node-1" || view.raw.NodePortRange != "31000-31999" || len(view.options.ClusterCIDRs) != 1 {
		t.Errorf("options %+v", view.options)
	}
	opened, err := view.open(t.Context(), view.options, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	compare := []cmp.Option{cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{}), cmpopts.EquateEmpty()}
	if diff := cmp.Diff(read.Names(), opened.Names()); diff != "" || len(opened.Names()) != 1 {
		t.Errorf("names: %s", diff)
	}
	for _, name := range read.Names() {
		service, endpoints := read.Service(name)
		toldService, toldEndpoints := opened.Service(name)
		if diff := cmp.Diff(service, toldService, compare...); diff != "" {
			t.Errorf("%s: read -, told +\n%s", name, diff)
		}
		if diff := cmp.Diff(endpoints, toldEndpoints, compare...); diff != "" || len(endpoints) == 0 {
			t.Errorf("endpoints of %s: read -, told +\n%s", name, diff)
		}
	}
	node, known := read.Node()
	toldNode, toldKnown := opened.Node()
	if diff := cmp.Diff(node, toldNode, compare...); diff != "" || known != toldKnown {
		t.Errorf("node: read -, told +\n%s", diff)
	}
}

func TestAgentTellsDrains(t *testing.T) {
	teller := &teller{}
	key := ipvsutil.Key{Addr: netip.MustParseAddrPort("10.96.0.10:80"), Protocol: ipvsutil.TCP}
	since := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	teller.ended(0, []reconcile.Drain{{Server: key, Real: netip.MustParseAddrPort("10.244.1.10:8080"), Since: since}})
	teller.ended(3, []reconcile.Drain{{Server: key, Real: netip.MustParseAddrPort("10.244.1.11:8080"), Since: since, Deadline: since.Add(time.Minute)}})
	got, err := teller.draining()
	want := agentDrains{Changes: 1, Drains: []agentDrain{{Server: "10.96.0.10:80/tcp", Real: "10.244.1.11:8080", Since: since, Deadline: since.Add(time.Minute)}}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v: %s", err, diff)
	}
}

// TestDrainIsDescribed with all that is known of it.
func TestDrainIsDescribed(t *testing.T) {
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for want, r := range map[string]realRow{
		"not planned":                    {State: "not planned"},
		"draining":                       {State: "draining"},
		"draining: its pod is not ready": {State: "draining", Reason: "its pod is not ready"},
		"draining for 2m0s: its pod is terminating; ends in 13m0s at the latest": {State: "draining", Reason: "its pod is terminating",
			Since: now.Add(-2 * time.Minute), Deadline: now.Add(13 * time.Minute)},
		"draining for 2m0s; without a deadline": {State: "draining", Since: now.Add(-2 * time.Minute)},
	} {
		if got := r.state(now); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestPeerIsKnown: the peer of a connection in this process is this user.
func TestPeerIsKnown(t *testing.T) {
	address := &net.UnixAddr{Net: "unix", Name: "@kube-ipvs-proxy-test-" + t.Name()}
	listener, err := net.ListenUnix("unix", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	client, err := (&net.Dialer{}).DialContext(context.Background(), "unix", address.Name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	conn, err := trusted{listener}.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := peer(conn.(*net.UnixConn)); err != nil {
		t.Error(err)
	}
}

func TestParseConnections(t *testing.T) {
	const text = `Pro FromIP   FPrt ToIP     TPrt DestIP   DPrt State       Expires PEName PEData
TCP 0AF40105 D431 0A60000A 0050 0AF4010A 1F90 ESTABLISHED     899
TCP 0AF40105 D432 0A60000A 0050 0AF4010A 1F90 ESTABLISHED     898
TCP 0AF40105 D433 0A60000A 0050 0AF4020A 1F90 SYN_RECV         59
TCP 0AF40105 0000 0A60000A 0050 0AF4020A 1F90 NONE            590
UDP [fd44:0000:0000:0001:0000:0000:0000:0005] 9C40 [fd96:0000:0000:0000:0000:0000:0000:0053] 0035 [fd44:0000:0000:0001:0000:0000:0000:0010] 0035 UDP             291
`
	got, err := parseConnections(bytes.NewReader([]byte(text)))
	if err != nil {
		t.Fatal(err)
	}
	want := map[ipvsutil.Key]map[string]int{
		{Addr: netip.MustParseAddrPort("10.96.0.10:80"), Protocol: ipvsutil.TCP}: {"ESTABLISHED": 2, "SYN_RECV": 1},
		{Addr: netip.MustParseAddrPort("[fd96::53]:53"), Protocol: ipvsutil.UDP}: {"UDP": 1},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(ipvsutil.Key{})); diff != "" {
		t.Error(diff)
	}
}
