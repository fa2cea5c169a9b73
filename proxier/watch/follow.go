package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// quiet is how long nothing may happen in the folder before it is read, and
	// patience how long that is waited for.
	quiet, patience = 20 * time.Millisecond, 200 * time.Millisecond
	// pollPeriod is how often the folder is looked at when the kernel cannot tell
	// of its changes.
	pollPeriod = time.Second
)

// places are the folders to be watched, each with the names in it that matter.
type places map[string]map[string]bool

// follower is the goroutine that follows a folder.
type follower struct {
	m       *Manifests
	r       *reader
	watcher *fsnotify.Watcher // nil: look each second
	blind   Problem           // why the kernel cannot tell of all changes
	real    string            // the folder without symbolic links
	places  places

	// names are the files of which there were events, all stands for the whole
	// folder. since is the time of the first event, last of the last one; both are
	// zero when nothing is pending.
	names       map[string]bool
	all         bool
	since, last time.Time
	// retry is when to look again without an event; zero: never.
	retry time.Time
}

// follow reads the folder at once and after every change. It ends with ctx.
func (m *Manifests) follow(ctx context.Context, r *reader) {
	defer close(m.done)
	f := &follower{m: m, r: r, all: true}
	watcher, err := fsnotify.NewBufferedWatcher(1024)
	if err == nil {
		defer func() { _ = watcher.Close() }() // the process or the folder ends
		f.watcher = watcher
	}
	f.setBlind(err)
	f.run(ctx)
}

// setBlind notes whether the kernel tells of changes.
func (f *follower) setBlind(err error) {
	f.blind = Problem{}
	if err != nil {
		f.blind.Reason = fmt.Sprintf("the kernel does not tell of changes of %s, so it is looked at each second: %v "+
			"(see the sysctls fs.inotify.max_user_instances and max_user_watches)", f.r.dir, err)
	}
}

// run is the loop.
func (f *follower) run(ctx context.Context) {
	var events chan fsnotify.Event
	var errors chan error
	if f.watcher != nil {
		events, errors = f.watcher.Events, f.watcher.Errors
	}
	f.refresh()
	timer := time.NewTimer(f.wait(time.Now()))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-events:
			if !f.event(e) {
				continue
			}
			f.note(time.Now())
		case err := <-errors:
			_ = err // whatever it says, events were lost
			f.all = true
			f.note(time.Now())
		case <-timer.C:
		}
		if f.wait(time.Now()) <= 0 {
			f.refresh()
		}
		timer.Reset(f.wait(time.Now()))
	}
}

// event notes what an event asks for; false means nothing.
func (f *follower) event(e fsnotify.Event) bool {
	dir, name := filepath.Split(e.Name)
	dir = filepath.Clean(dir)
	switch {
	case e.Name == f.real:
		f.all = true // the folder itself moved or went away
	case dir == f.real && isManifest(name):
		if f.names == nil {
			f.names = make(map[string]bool)
		}
		f.names[name] = true
	case dir == f.real && !isTemporary(name):
		f.all = true // a folder or link that manifests may lead through
	case dir != f.real && f.places[dir][name]:
		f.all = true
	default:
		return false
	}
	return true
}

// isTemporary reports whether a name is an editor's. Names like ..data belong to
// mounts of ConfigMaps.
func isTemporary(name string) bool {
	return strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "..") || strings.HasSuffix(name, "~")
}

// note sets the time of an event.
func (f *follower) note(now time.Time) {
	f.last = now
	if f.since.IsZero() {
		f.since = now
	}
}

// wait returns how long nothing is to be done.
func (f *follower) wait(now time.Time) time.Duration {
	wait := time.Duration(1<<63 - 1)
	if !f.retry.IsZero() {
		wait = f.retry.Sub(now)
	}
	if !f.since.IsZero() {
		wait = min(wait, f.last.Add(quiet).Sub(now), f.since.Add(patience).Sub(now))
	}
	return wait
}

// refresh reads what is pending, or the whole folder when it is time for that.
func (f *follower) refresh() {
	names, all := f.names, f.all
	if !f.retry.IsZero() && !time.Now().Before(f.retry) {
		all = true
	}
	f.names, f.all, f.since, f.last = nil, false, time.Time{}, time.Time{}
	var u update
	done := false
	if !all {
		u, done = f.r.some(names)
	}
	if !done {
		// Watch first: what happens after that is read now or gives an event.
		f.watch()
		u = f.r.everything(names)
		f.retry = time.Time{}
		if f.blind != (Problem{}) {
			u.folder = append(u.folder, f.blind)
			f.retryIn(pollPeriod)
		}
	}
	if u.retry > 0 {
		f.retryIn(u.retry)
	}
	f.m.take(u, f.r)
}

// retryIn asks for a look at the whole folder after at most d.
func (f *follower) retryIn(d time.Duration) {
	if at := time.Now().Add(d); f.retry.IsZero() || at.Before(f.retry) {
		f.retry = at
	}
}

// watch makes the kernel tell of changes in all places that matter now.
func (f *follower) watch() {
	if f.watcher == nil {
		return
	}
	// A link may be turned while its target is looked up; then look once more.
	for range 3 {
		f.places = f.wanted()
		more, err := f.setWatches()
		f.setBlind(err)
		if !more {
			return
		}
	}
}

// setWatches watches what is in places and nothing else. It reports whether a watch
// was added.
func (f *follower) setWatches() (more bool, failed error) {
	have := f.watcher.WatchList()
	for _, dir := range have {
		if _, wanted := f.places[dir]; !wanted {
			// An error means that the folder is gone, and its watch with it.
			_ = f.watcher.Remove(dir)
		}
	}
	for dir := range f.places {
		if slices.Contains(have, dir) {
			continue
		}
		if err := f.watcher.Add(dir); err != nil && !os.IsNotExist(err) {
			failed = err
		} else if err == nil {
			more = true
		}
	}
	return more, failed
}

// wanted returns the places that matter: the folder, and wherever a link on the way
// to the folder or to a manifest can be turned or its target be written.
func (f *follower) wanted() places {
	p := make(places)
	real, links, err := resolve(f.r.dir)
	for _, link := range links {
		p.add(link)
	}
	if err != nil {
		return p
	}
	f.real = real
	entries, _ := os.ReadDir(real)
	for _, e := range entries {
		if e.Type()&os.ModeSymlink == 0 || !isManifest(e.Name()) {
			continue
		}
		target, links, err := resolve(filepath.Join(real, e.Name()))
		for _, link := range links {
			p.add(link)
		}
		if err == nil {
			p.add(target)
		}
	}
	p[real] = nil // all names; see event
	return p
}

// add asks to be told of changes of path.
func (p places) add(path string) {
	dir, name := filepath.Split(path)
	dir = filepath.Clean(dir)
	if p[dir] == nil {
		p[dir] = make(map[string]bool)
	}
	p[dir][name] = true
}
