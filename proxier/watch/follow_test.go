package watch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"kube-ipvs-proxy/proxier/plan"
)

// followBy follows a folder with a follower that the test made.
func followBy(t *testing.T, watcher *fsnotify.Watcher, blind error) *folder {
	t.Helper()
	f := &folder{t: t, dir: t.TempDir()}
	f.writeOnly("a.yaml", serviceYAML("a", "10.96.0.1"))
	f.m = &Manifests{onProblem: func(Problem) {}, changed: make(chan struct{}, 1), done: make(chan struct{}), index: newIndex("node-1")}
	follower := &follower{m: f.m, r: newReader(f.dir), watcher: watcher, all: true}
	follower.setBlind(blind)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(f.m.done)
		follower.run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-f.m.done })
	f.settle()
	return f
}

// TestWithoutEvents: where the kernel gives no notice, the folder is looked at.
func TestWithoutEvents(t *testing.T) {
	f := followBy(t, nil, errors.New("too many open files"))
	f.wantProblems("it is looked at each second: too many open files")
	if !f.m.Complete() {
		t.Error("not complete, although all was read")
	}
	f.wantDirty(f.write("a.yaml", serviceYAML("a", "10.96.0.22")), "a")
	f.wantDirty(f.remove("a.yaml"), "a")
}

// TestLostEvents: after an overflow the whole folder is looked at.
func TestLostEvents(t *testing.T) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	f := followBy(t, watcher, nil)
	f.wantProblems()
	if err := watcher.Remove(f.dir); err != nil {
		t.Fatal(err)
	}
	f.writeOnly("a.yaml", serviceYAML("a", "10.96.0.22"))
	time.Sleep(3 * quiet)
	f.wantState("a", "[10.96.0.1]")
	watcher.Errors <- fsnotify.ErrEventOverflow
	f.wantDirty(f.settle(), "a")
	// The folder is watched again.
	f.wantDirty(f.write("a.yaml", serviceYAML("a", "10.96.0.3")), "a")
}

// TestWait: a folder is read when it was quiet, or when patience ends.
func TestWait(t *testing.T) {
	start := time.Unix(1000, 0)
	f := new(follower)
	if got := f.wait(start); got < time.Hour {
		t.Errorf("with nothing to do the wait is %v", got)
	}
	f.note(start)
	if got := f.wait(start); got != quiet {
		t.Errorf("after an event the wait is %v, want %v", got, quiet)
	}
	for at := start; ; at = at.Add(quiet / 2) {
		if at.Sub(start) > 2*patience {
			t.Fatal("with endless events the wait never ends")
		}
		f.note(at)
		if f.wait(at) <= 0 {
			if took := at.Sub(start); took != patience {
				t.Errorf("with endless events the wait ends after %v, want %v", took, patience)
			}
			break
		}
	}
	f = &follower{retry: start.Add(time.Second)}
	f.note(start)
	if got := f.wait(start); got != quiet {
		t.Errorf("a retry holds an event back: the wait is %v", got)
	}
	if got := (&follower{retry: start.Add(time.Second)}).wait(start); got != time.Second {
		t.Errorf("before a retry the wait is %v", got)
	}
}

// TestEvent: which events lead to which look.
func TestEvent(t *testing.T) {
	tests := map[string]struct{ some, all bool }{
		"/m/web.yaml": {some: true}, "/m/.web.yaml.swp": {}, "/m/web.yaml~": {}, "/m/..data": {all: true}, "/m/sub": {all: true},
		"/m": {all: true}, "/other/link": {all: true}, "/other/noise": {}, "/elsewhere/web.yaml": {},
	}
	for name, want := range tests {
		f := &follower{real: "/m", places: places{"/m": nil}}
		f.places.add("/other/link")
		told := f.event(fsnotify.Event{Name: name})
		if f.all != want.all || f.names["web.yaml"] != want.some || told != (want.all || want.some) {
			t.Errorf("%s: told %v, all %v, names %v; want %+v", name, told, f.all, f.names, want)
		}
	}
}

// TestResolve: links are followed as the kernel does.
func TestResolve(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.MkdirAll(filepath.Join(dir, "v1", "deep"), 0o755),
		os.Symlink("v1", filepath.Join(dir, "current")),
		os.Symlink(filepath.Join(dir, "current"), filepath.Join(dir, "v1", "back")),
		os.Symlink("loop", filepath.Join(dir, "loop")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	real, links, err := resolve(filepath.Join(dir, "current", "back", "deep", "..", "deep"))
	want := fmt.Sprint([]string{filepath.Join(dir, "current"), filepath.Join(dir, "v1", "back"), filepath.Join(dir, "current")})
	if err != nil || real != filepath.Join(dir, "v1", "deep") || fmt.Sprint(links) != want {
		t.Errorf("%s by %v, %v; want links %s", real, links, err, want)
	}
	if _, _, err := resolve(filepath.Join(dir, "loop")); err == nil {
		t.Error("a loop of links ends somewhere")
	}
}

// TestManyReaders is for the race detector.
func TestManyReaders(t *testing.T) {
	f := newFolder(t, map[string]string{"a.yaml": serviceYAML("a", "10.96.0.1") + "---\n" + sliceYAML("a-1", "a", "10.244.1.10")})
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 3 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
				}
				for _, name := range f.m.Names() {
					f.m.Service(name)
				}
				f.m.Problems()
				f.m.Node()
				f.m.Complete()
			}
		})
	}
	for i := range 10 {
		f.write("a.yaml", serviceYAML("a", fmt.Sprint("10.96.0.", i+1))+"---\n"+sliceYAML("a-1", "a", fmt.Sprint("10.244.1.", i+1)))
	}
	close(stop)
	group.Wait()
	if s, list := f.m.Service(plan.ServiceName{Namespace: "default", Name: "a"}); s == nil || len(list) != 1 {
		t.Errorf("at the end %v, %v", s, list)
	}
}
