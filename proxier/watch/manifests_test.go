package watch

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/proxier/plan"
)

func TestFirstRead(t *testing.T) {
	f := newFolder(t, map[string]string{
		"web.yaml":    serviceYAML("web", "10.96.0.10") + "---\n" + sliceYAML("web-1", "web", "10.244.1.10"),
		"db.yml":      "# a database\n---\n" + serviceYAML("db", "10.96.0.11"),
		"node.json":   `{"apiVersion":"v1","kind":"Node","metadata":{"name":"node-1"}}`,
		".hidden.yml": serviceYAML("hidden", "10.96.0.12"),
		"#db.yaml#":   serviceYAML("hidden", "10.96.0.12"),
		"db.yaml~":    serviceYAML("hidden", "10.96.0.12"),
		"readme.txt":  "nothing",
	})
	select {
	case <-f.m.Changed():
	case <-time.After(10 * time.Second):
		t.Error("the first read was not told")
	}
	d := f.settle()
	if !d.All || !slices.Equal(d.Services, []plan.ServiceName{{Namespace: "default", Name: "db"}, {Namespace: "default", Name: "web"}}) {
		t.Errorf("dirty %+v", d)
	}
	f.wantState("web", "[10.96.0.10] 10.244.1.10:8080")
	f.wantState("db", "[10.96.0.11]")
	f.wantState("hidden", "-")
	if names := f.m.Names(); len(names) != 2 || names[0].Name != "db" || names[1].Name != "web" {
		t.Errorf("names %v", names)
	}
	if n, ok := f.m.Node(); !ok || n.Name != "node-1" {
		t.Errorf("node %+v, %v", n, ok)
	}
	f.wantProblems()
	if !f.m.Complete() {
		t.Error("not complete")
	}
	f.wantDirty(f.settle())
}

func TestNoFolder(t *testing.T) {
	_, err := NewManifests(t.Context(), filepath.Join(t.TempDir(), "missing"), "n", nil)
	if err == nil || !strings.Contains(err.Error(), "missing") {
		t.Errorf("error %v", err)
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := NewManifests(t.Context(), path, "n", nil); err == nil || !strings.Contains(err.Error(), "not a folder") {
		t.Errorf("error %v", err)
	}
}

func TestBrokenFileKeepsLastGood(t *testing.T) {
	good := serviceYAML("a", "10.96.0.1") + "---\n" + serviceYAML("b", "10.96.0.2") + "---\n" + serviceYAML("c", "10.96.0.3")
	f := newFolder(t, map[string]string{"all.yaml": good, "other.yaml": serviceYAML("d", "10.96.0.4")})
	f.settle()
	// b breaks, c changes, a stays: c is read, b keeps its state.
	d := f.write("all.yaml", serviceYAML("a", "10.96.0.1")+"---\nkind: [\n---\n"+serviceYAML("c", "10.96.0.33"))
	f.wantDirty(d, "c")
	f.wantState("b", "[10.96.0.2]")
	f.wantState("c", "[10.96.0.33]")
	f.wantProblems("all.yaml, document 2, line ")
	if told := f.takeFresh(); len(told) != 1 {
		t.Errorf("told %v", told)
	}
	// The same fault again, and a change elsewhere in the file: told once.
	f.wantDirty(f.write("all.yaml", serviceYAML("a", "10.96.0.11")+"---\nkind: [\n---\n"+serviceYAML("c", "10.96.0.33")), "a")
	if told := f.takeFresh(); len(told) != 0 {
		t.Errorf("told again: %v", told)
	}
	if !f.m.Complete() {
		t.Error("not complete, although every object has a good state")
	}
	// Mended without b: b goes.
	f.wantDirty(f.write("all.yaml", serviceYAML("a", "10.96.0.11")+"---\n"+serviceYAML("c", "10.96.0.33")), "b")
	f.wantState("b", "-")
	f.wantProblems()
	f.wantState("d", "[10.96.0.4]")
}

func TestNeverGoodIsNotComplete(t *testing.T) {
	f := newFolder(t, map[string]string{"a.yaml": "a: [", "b.yaml": serviceYAML("b", "10.96.0.2")})
	f.wantState("b", "[10.96.0.2]")
	if f.m.Complete() {
		t.Error("complete with a file that was never good")
	}
	f.write("a.yaml", serviceYAML("a", "10.96.0.1"))
	if !f.m.Complete() {
		t.Error("not complete after the file was mended")
	}
}

// TestOneChange: a changed slice makes one Service dirty and costs one file.
func TestOneChange(t *testing.T) {
	files := make(map[string]string)
	for i := range 50 {
		name := fmt.Sprintf("s%02d", i)
		files[name+".yaml"] = serviceYAML(name, fmt.Sprintf("10.96.0.%d", i+1)) + "---\n" + sliceYAML(name+"-1", name, "10.244.1.10")
	}
	f := newFolder(t, files)
	f.settle()
	before := f.counters()
	f.wantDirty(f.write("s07.yaml", serviceYAML("s07", "10.96.0.8")+"---\n"+sliceYAML("s07-1", "s07", "10.244.1.10", "10.244.1.11")), "s07")
	f.wantState("s07", "[10.96.0.8] 10.244.1.10:8080 10.244.1.11:8080")
	after := f.counters()
	if read, decoded := after.read-before.read, after.decoded-before.decoded; read != 1 || decoded != 1 {
		t.Errorf("%d files were read and %d documents decoded, want 1 and 1", read, decoded)
	}
	// A touch of everything: read, nothing decoded, nothing dirty.
	later := time.Now().Add(time.Hour)
	for name := range files {
		if err := os.Chtimes(filepath.Join(f.dir, name), later, later); err != nil {
			t.Fatal(err)
		}
	}
	f.wantDirty(f.settle())
	if c := f.counters(); c.decoded != after.decoded {
		t.Errorf("a touch decoded %d documents", c.decoded-after.decoded)
	}
	// A change without meaning: decoded, nothing dirty.
	f.wantDirty(f.write("s07.yaml", "# hello\n"+serviceYAML("s07", "10.96.0.8")+"---\n"+sliceYAML("s07-1", "s07", "10.244.1.11", "10.244.1.10")))
}

func TestComeAndGo(t *testing.T) {
	f := newFolder(t, map[string]string{"a.yaml": serviceYAML("a", "10.96.0.1")})
	f.settle()
	// A slice before its Service.
	f.wantDirty(f.write("b-slice.yaml", sliceYAML("b-1", "b", "10.244.1.10")), "b")
	f.wantState("b", "- 10.244.1.10:8080")
	f.wantDirty(f.write("b.yaml", serviceYAML("b", "10.96.0.2")), "b")
	f.wantState("b", "[10.96.0.2] 10.244.1.10:8080")
	// The slice moves to another Service by its label.
	f.wantDirty(f.write("b-slice.yaml", sliceYAML("b-1", "a", "10.244.1.10")), "a", "b")
	f.wantState("a", "[10.96.0.1] 10.244.1.10:8080")
	f.wantState("b", "[10.96.0.2]")
	// Files go.
	f.wantDirty(f.remove("b-slice.yaml"), "a")
	f.wantDirty(f.remove("b.yaml"), "b")
	f.wantState("b", "-")
	if names := f.m.Names(); len(names) != 1 {
		t.Errorf("names %v", names)
	}
	// An object that moves to another file in one go has not changed.
	f.writeOnly("c.yaml", serviceYAML("a", "10.96.0.1"))
	f.wantDirty(f.remove("a.yaml"))
	f.wantState("a", "[10.96.0.1]")
}

func TestNodeChanges(t *testing.T) {
	f := newFolder(t, map[string]string{"a.yaml": serviceYAML("a", "10.96.0.1")})
	f.settle()
	if n, ok := f.m.Node(); ok || n.Name != "node-1" {
		t.Errorf("without a Node object: %+v, %v", n, ok)
	}
	if d := f.write("node.yaml", nodeYAML("node-1", "a")+"---\n"+nodeYAML("node-2", "b")); !d.All {
		t.Error("a new Node is no change")
	}
	if n, ok := f.m.Node(); !ok || n.Zone != "a" {
		t.Errorf("node %+v, %v", n, ok)
	}
	if d := f.write("node.yaml", nodeYAML("node-1", "a")+"---\n"+nodeYAML("node-2", "c")); d.All {
		t.Error("another Node's zone is a change")
	}
	if d := f.write("node.yaml", nodeYAML("node-1", "z")); !d.All {
		t.Error("Statement39: a changed zone is no change")
	}
	if d := f.remove("node.yaml"); !d.All {
		t.Error("a deleted Node is no change")
	}
}

func TestSameObjectTwice(t *testing.T) {
	f := newFolder(t, map[string]string{"a.yaml": serviceYAML("web", "10.96.0.1"), "b.yaml": serviceYAML("web", "10.96.0.2")})
	f.settle()
	f.wantState("web", "[10.96.0.2]")
	f.wantProblems("a.yaml: Service default/web: stands in b.yaml too")
	// The loser changes: nothing happens. The winner breaks: its last good state wins.
	f.wantDirty(f.write("a.yaml", serviceYAML("web", "10.96.0.11")))
	f.wantDirty(f.write("b.yaml", "kind: ["))
	f.wantState("web", "[10.96.0.2]")
	// The winner goes: the other takes over.
	f.wantDirty(f.remove("b.yaml"), "web")
	f.wantState("web", "[10.96.0.11]")
	f.wantProblems()
	f.wantDirty(f.write("a.yaml", serviceYAML("web", "10.96.0.3")+"---\n"+serviceYAML("web", "10.96.0.4")), "web")
	f.wantState("web", "[10.96.0.4]")
	f.wantProblems("a.yaml: Service default/web: stands in this file more than once")
}

func TestEmptiedFileIsGivenTime(t *testing.T) {
	f := newFolder(t, map[string]string{"a.yaml": serviceYAML("a", "10.96.0.1")})
	f.settle()
	// What a shell does for "slow command > a.yaml".
	f.writeOnly("a.yaml", "")
	time.Sleep(150 * time.Millisecond)
	f.wantState("a", "[10.96.0.1]")
	f.wantDirty(f.write("a.yaml", serviceYAML("a", "10.96.0.2")), "a")
	// A file that stays empty has no objects.
	f.wantDirty(f.write("a.yaml", ""), "a")
	f.wantState("a", "-")
}

func TestUnreadableFile(t *testing.T) {
	f := newFolder(t, map[string]string{"a.yaml": serviceYAML("a", "10.96.0.1")})
	f.settle()
	// Root may read everything, so a link that leads nowhere stands for it.
	if err := os.Symlink("nowhere", filepath.Join(f.dir, "tmp.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(f.dir, "tmp.yaml"), filepath.Join(f.dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	f.wait(func() bool { return len(f.m.Problems()) == 1 })
	f.wantState("a", "[10.96.0.1]")
	f.wantProblems("a.yaml: stat ")
	f.writeOnly("nowhere", serviceYAML("a", "10.96.0.2"))
	f.wantDirty(f.settle(), "a")
	f.wantState("a", "[10.96.0.2]")
}

func TestFolderGoesAndComes(t *testing.T) {
	parent := t.TempDir()
	f := &folder{t: t, dir: filepath.Join(parent, "m")}
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f.writeOnly("a.yaml", serviceYAML("a", "10.96.0.1"))
	f.start()
	f.settle()
	if err := os.Rename(f.dir, filepath.Join(parent, "old")); err != nil {
		t.Fatal(err)
	}
	f.wait(func() bool { return len(f.m.Problems()) == 1 })
	f.wantState("a", "[10.96.0.1]")
	f.wantDirty(f.m.Drain())
	if err := os.Mkdir(f.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	f.writeOnly("a.yaml", serviceYAML("a", "10.96.0.2"))
	f.wantDirty(f.settle(), "a")
	f.wantProblems()
	f.wantDirty(f.write("a.yaml", serviceYAML("a", "10.96.0.3")), "a")
}

// TestFolderGoneBeforeFirstRead: nothing is concluded from a folder that was not read.
func TestFolderGoneBeforeFirstRead(t *testing.T) {
	m := &Manifests{onProblem: func(Problem) {}, changed: make(chan struct{}, 1), index: newIndex("n")}
	r := newReader(filepath.Join(t.TempDir(), "gone"))
	u := r.everything(nil)
	m.take(u, r)
	if m.Synced() || m.Complete() || m.Drain().All || len(m.Changed()) > 0 || u.retry == 0 {
		t.Errorf("synced %v, complete %v, retry after %v", m.Synced(), m.Complete(), u.retry)
	}
	wantProblems(t, m.Problems(), []string{"the last good state stays"})
}

// TestConfigMapMount: kubelet turns the link ..data to a new folder.
func TestConfigMapMount(t *testing.T) {
	f := &folder{t: t, dir: t.TempDir()}
	turn := func(version, content string) {
		dir := filepath.Join(f.dir, ".."+version)
		for _, err := range []error{
			os.Mkdir(dir, 0o755),
			os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(content), 0o644),
			os.Symlink(".."+version, filepath.Join(f.dir, "..data_tmp")),
			os.Rename(filepath.Join(f.dir, "..data_tmp"), filepath.Join(f.dir, "..data")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	turn("v1", serviceYAML("a", "10.96.0.1"))
	if err := os.Symlink("..data/a.yaml", filepath.Join(f.dir, "a.yaml")); err != nil {
		t.Fatal(err)
	}
	f.start()
	f.settle()
	f.wantState("a", "[10.96.0.1]")
	turn("v2", serviceYAML("a", "10.96.0.2"))
	f.wantDirty(f.settle(), "a")
	f.wantState("a", "[10.96.0.2]")
	if err := os.RemoveAll(filepath.Join(f.dir, "..v1")); err != nil {
		t.Fatal(err)
	}
	turn("v3", serviceYAML("a", "10.96.0.3"))
	f.wantDirty(f.settle(), "a")
	f.wantState("a", "[10.96.0.3]")
}

// TestLinkedFolder: the folder is itself a link, which is turned.
func TestLinkedFolder(t *testing.T) {
	parent := t.TempDir()
	f := &folder{t: t, dir: filepath.Join(parent, "current")}
	for i, ip := range []string{"10.96.0.1", "10.96.0.22"} {
		dir := filepath.Join(parent, fmt.Sprint("v", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a.yaml"), []byte(serviceYAML("a", ip)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("v0", f.dir); err != nil {
		t.Fatal(err)
	}
	f.start()
	f.settle()
	f.wantState("a", "[10.96.0.1]")
	if err := os.Symlink("v1", f.dir+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(f.dir+".new", f.dir); err != nil {
		t.Fatal(err)
	}
	f.wantDirty(f.settle(), "a")
	f.wantState("a", "[10.96.0.22]")
	f.wantDirty(f.write("a.yaml", serviceYAML("a", "10.96.0.3")), "a")
}

// TestSampleManifests: the objects of the demo are read without a complaint.
func TestSampleManifests(t *testing.T) {
	f := &folder{t: t, dir: filepath.Join("..", "..", "deploy", "manifests")}
	f.start()
	f.wantProblems()
	f.wantState("echo", "[10.96.0.10 fd96::10]"+
		" 10.244.1.10:8080 10.244.2.10:8080 10.244.3.10:8080 [fd44:0:0:1::10]:8080 [fd44:0:0:2::10]:8080 [fd44:0:0:3::10]:8080"+
		" 10.244.1.10:8080 10.244.2.10:8080 10.244.3.10:8080 [fd44:0:0:1::10]:8080 [fd44:0:0:2::10]:8080 [fd44:0:0:3::10]:8080")
	if got := fmt.Sprint(f.m.Names()); got != "[default/echo default/echo-lb default/echo-lb-local default/echo-nodeport]" {
		t.Errorf("Services %s", got)
	}
	local, _ := f.m.Service(plan.ServiceName{Namespace: "default", Name: "echo-lb-local"})
	if !local.ExternalLocal || local.HealthCheckNodePort != 32000 || fmt.Sprint(local.LoadBalancerIPs) != "[203.0.113.11]" {
		t.Errorf("echo-lb-local is %+v", local)
	}
	if n, ok := f.m.Node(); !ok || n.Zone != "a" || fmt.Sprint(n.IPs, n.PodCIDRs) != "[172.30.0.2 fd30::2] [10.244.1.0/24 fd44:0:0:1::/64]" {
		t.Errorf("node %+v, %v", n, ok)
	}
}
