package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"kube-ipvs-proxy/proxier/plan"
)

// folder is a folder under test with a source that follows it.
type folder struct {
	t   *testing.T
	dir string
	m   *Manifests

	mu    sync.Mutex
	fresh []Problem // all that were told
}

// serviceYAML and sliceYAML are small objects of the namespace default.
func serviceYAML(name, ip string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Service\nmetadata:\n  name: %s\nspec:\n  clusterIP: %s\n  ports:\n  - name: http\n    port: 80\n", name, ip)
}

func sliceYAML(name, owner string, ips ...string) string {
	s := fmt.Sprintf("apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: %s\n  labels:\n"+
		"    kubernetes.io/service-name: %s\naddressType: IPv4\nports:\n- name: http\n  port: 8080\nendpoints:\n", name, owner)
	for _, ip := range ips {
		s += fmt.Sprintf("- addresses: [%q]\n", ip)
	}
	return s
}

func nodeYAML(name, zone string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Node\nmetadata:\n  name: %s\n  labels: {topology.kubernetes.io/zone: %s}\n"+
		"status:\n  addresses:\n  - {type: InternalIP, address: 172.30.0.2}\n", name, zone)
}

// newFolder writes files and waits until they are read.
func newFolder(t *testing.T, files map[string]string) *folder {
	t.Helper()
	f := &folder{t: t, dir: t.TempDir()}
	for name, content := range files {
		f.writeOnly(name, content)
	}
	f.start()
	return f
}

// start begins to follow the folder.
func (f *folder) start() {
	f.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	m, err := NewManifests(ctx, f.dir, " NODE-1 ", func(p Problem) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.fresh = append(f.fresh, p)
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.m = m
	f.t.Cleanup(func() { cancel(); <-m.done })
	f.wait(m.Synced)
}

// writeOnly writes a file in place and does not wait.
func (f *folder) writeOnly(name, content string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(content), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// write writes a file and waits until exactly that was taken in.
func (f *folder) write(name, content string) Dirty {
	f.t.Helper()
	f.writeOnly(name, content)
	return f.settle()
}

func (f *folder) remove(name string) Dirty {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.dir, name)); err != nil {
		f.t.Fatal(err)
	}
	return f.settle()
}

// settle waits until the present state of the folder was taken in, and returns all
// that became dirty meanwhile.
func (f *folder) settle() Dirty {
	f.t.Helper()
	want, err := FolderRevision(f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	var all Dirty
	f.wait(func() bool {
		d := f.m.Drain()
		all.All = all.All || d.All
		all.Services = append(all.Services, d.Services...)
		all.Revision = d.Revision
		return d.Revision == want
	})
	return all
}

// wait polls, because the kernel's events come when they come.
func (f *folder) wait(done func() bool) {
	f.t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if done() {
			return
		}
	}
	f.t.Fatalf("nothing happened for 10 s; problems: %v", f.m.Problems())
}

// wantDirty checks the names of dirty Services of the namespace default.
func (f *folder) wantDirty(d Dirty, names ...string) {
	f.t.Helper()
	var got []string
	for _, n := range d.Services {
		got = append(got, n.Name)
	}
	if d.All || !slices.Equal(got, names) {
		f.t.Errorf("dirty: all %v, %v; want %v", d.All, got, names)
	}
}

// state shows a Service and its endpoints.
func (f *folder) state(name string) string {
	s, list := f.m.Service(plan.ServiceName{Namespace: "default", Name: name})
	out := "-"
	if s != nil {
		out = fmt.Sprint(s.ClusterIPs)
	}
	for _, e := range list {
		out += " " + e.Addr.String()
	}
	return out
}

func (f *folder) wantState(name, want string) {
	f.t.Helper()
	if got := f.state(name); got != want {
		f.t.Errorf("Service %s: %q, want %q", name, got, want)
	}
}

// takeFresh returns the problems that were told since the last call.
func (f *folder) takeFresh() []Problem {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := f.fresh
	f.fresh = nil
	return out
}

// wantProblems checks the present problems.
func (f *folder) wantProblems(want ...string) {
	f.t.Helper()
	wantProblems(f.t, f.m.Problems(), want)
}

func (f *folder) counters() counters {
	f.m.mu.Lock()
	defer f.m.mu.Unlock()
	return f.m.count
}
