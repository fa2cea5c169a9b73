package proxier

import (
	"bytes"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/api"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
	"kube-ipvs-proxy/proxier/reconcile"
	"kube-ipvs-proxy/proxier/watch"
)

// BenchmarkStart reads everything from an API server and writes it to a kernel that
// takes everything and remembers nothing.
func BenchmarkStart(b *testing.B) {
	for _, size := range []world.Size{{Services: 1000, Endpoints: 4}, {Services: 5000, Endpoints: 4}, {Services: 1000, Endpoints: 50}} {
		b.Run(size.String(), func(b *testing.B) {
			client := serveWorld(b, size)
			b.ReportAllocs()
			b.ResetTimer()
			before := cpu(b)
			for range b.N {
				startFrom(b, client, size)
			}
			b.ReportMetric(float64(cpu(b)-before)/float64(b.N)/1e6, "cpu-ms/op")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// serveWorld serves a world of that size as the API server does, encoded beforehand.
func serveWorld(tb testing.TB, size world.Size) *watch.Client {
	tb.Helper()
	w := world.New(size, "default", world.NodeName)
	server := api.New()
	server.Put(world.NodeObject(w.Node()))
	for _, s := range w.Services {
		server.Put(s.Object())
		for _, slice := range s.Slices() {
			server.Put(slice)
		}
	}
	if _, err := server.Prepare(nil); err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	stop := server.Serve(l)
	tb.Cleanup(func() { server.Close(); stop() })
	var text bytes.Buffer
	fmt.Fprintf(&text, `apiVersion: v1
kind: Config
clusters: [{name: bench, cluster: {server: "http://%s"}}]
contexts: [{name: bench, context: {cluster: bench}}]
current-context: bench
`, l.Addr())
	path := filepath.Join(tb.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, text.Bytes(), 0o600); err != nil {
		tb.Fatal(err)
	}
	client, err := watch.Connect(watch.Connection{Kubeconfig: path})
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

// startFrom is the whole start of a loop.
func startFrom(tb testing.TB, client *watch.Client, size world.Size) {
	tb.Helper()
	source, err := watch.NewAPI(tb.Context(), watch.APIConfig{Client: client, NodeWait: -1}, world.NodeName, nil)
	if err != nil {
		tb.Fatal(err)
	}
	requests := new(int)
	kernel := blank{requests}
	node := &crowd{}
	p := New(Config{
		NodeName: world.NodeName, MarkBase: 1 << 15, MarkBits: 14,
		Reconcile: reconcile.Config{DrainCheck: time.Hour, SyncPeriod: -1, RefreshPeriod: -1},
	}, source, node, func(addrs, _ []netip.Addr) []netip.Addr { return addrs }, reconcile.Doors{
		IPVS: kernel, Sets: blankSets{requests}, Addresses: kernel, Rules: blankRules{}, Flows: kernel,
	}, slog.New(slog.DiscardHandler))
	for !source.Synced() {
		<-source.Changed()
	}
	if s := p.work(tb.Context()); !s.Complete() || s.Dirty < size.Services {
		tb.Fatalf("%+v", s)
	}
	runtime.KeepAlive(p)
}
