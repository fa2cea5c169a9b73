package hostile

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"kube-ipvs-proxy/e2e/testbed"
	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/proxier/ledger"
	"kube-ipvs-proxy/proxier/plan"
	"kube-ipvs-proxy/proxier/watch"
)

// seeds is how many worlds are made; the first is that of the packet test.
const seeds = 5

// pod is the good endpoint.
func pod(f testbed.Family) netip.Addr { return pick(f, "10.244.1.10", "fd44:0:0:1::10") }

// TestEachIsServedOrNamed reads hostile objects from a folder and plans them, as the
// proxy does: what can be served is, by the good endpoint alone, and the rest is named.
func TestEachIsServedOrNamed(t *testing.T) {
	for i := range seeds {
		seed := uint64(20261130 + i)
		all, wanted := Make(seed, 200, Endpoint{Node: "node-1", Addr: pod})
		l, told := world(t, append(all, wanted))
		for _, h := range append(all, wanted) {
			name := "hostile/" + h.Service.Name
			if h.Named && !strings.Contains(told, name) {
				t.Errorf("seed %d: %s (%v) is not named", seed, name, h.Harm)
			}
			for _, f := range testbed.Families() {
				server, _ := l.Server(ipvsutil.Key{Addr: netip.AddrPortFrom(h.ClusterIP(f), 80), Protocol: ipvsutil.TCP})
				if h.Served && (len(server.RealServers) != 1 || server.RealServers[0].Addr != netip.AddrPortFrom(pod(f), 8080)) {
					t.Errorf("seed %d: %s (%v) is served by %v", seed, name, h.Harm, server.RealServers)
				}
			}
		}
		for _, own := range []string{"172.30.0.2", "fd30::2"} {
			if a := netip.MustParseAddr(own); l.Bound(a) || l.Captured(a) {
				t.Errorf("seed %d: the node's own address %s is taken", seed, own)
			}
		}
	}
}

// world is what is desired of the objects, and all that is told of them.
func world(t *testing.T, objects []*Object) (l *ledger.Ledger, told string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var mu sync.Mutex
	var lines []string
	tell := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, line)
	}
	m, err := watch.NewManifests(ctx, folder(t, objects), "node-1", func(p watch.Problem) { tell(p.String()) })
	if err != nil {
		t.Fatal(err)
	}
	for !m.Synced() {
		select {
		case <-m.Changed():
		case <-ctx.Done():
			t.Fatal("the folder is not read")
		}
	}
	ips := []netip.Addr{netip.MustParseAddr("172.30.0.2"), netip.MustParseAddr("fd30::2")}
	node := plan.Node{Name: "node-1", IPs: ips, Addrs: ips, NodePortAddrs: ips}
	const markBase, markBits = 0x8000, 14
	l = ledger.New(markBase, markBits)
	for _, name := range m.Names() {
		service, endpoints := m.Service(name)
		claims, problems := plan.For(service, endpoints, node, plan.Config{})
		for _, p := range problems {
			tell(p.String())
		}
		l.Replace(ledger.Owner{Name: name, Created: service.Created}, claims)
	}
	for _, c := range l.Conflicts() {
		for _, loser := range c.Losers {
			tell(loser.String())
		}
	}
	mu.Lock()
	defer mu.Unlock()
	return l, strings.Join(lines, "\n")
}

// folder has the objects in one file.
func folder(t *testing.T, objects []*Object) string {
	t.Helper()
	var text strings.Builder
	for _, h := range objects {
		for _, o := range h.Objects() {
			y, err := yaml.Marshal(typed(o))
			if err != nil {
				t.Fatal(err)
			}
			text.WriteString("---\n" + string(y))
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "hostile.yaml"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// typed fills in what an object in YAML must say of itself.
func typed(o runtime.Object) runtime.Object {
	switch o := o.(type) {
	case *corev1.Service:
		o.APIVersion, o.Kind = "v1", "Service"
	case *discoveryv1.EndpointSlice:
		o.APIVersion, o.Kind = "discovery.k8s.io/v1", "EndpointSlice"
	}
	return o
}
