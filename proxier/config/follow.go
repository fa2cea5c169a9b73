package config

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Times of Follow.
const (
	// settle is how long a folder has to be quiet before the file is read: an editor
	// writes in steps, and a ConfigMap's volume changes links.
	settle = 500 * time.Millisecond
	// look is the time between two looks without an event: a link may lead to a folder
	// that is not watched, and inotify may be used up.
	look = time.Minute
)

// Follow calls changed, one call at a time, whenever the text of the file that r was
// resolved from became another one, until the context ends. A file that cannot be
// read is waited for. Without a file Follow returns at once.
func (r Raw) Follow(ctx context.Context, changed func()) {
	r.follow(ctx, settle, look, changed)
}

func (r Raw) follow(ctx context.Context, settle, look time.Duration, changed func()) {
	if r.file == "" {
		return
	}
	var events <-chan fsnotify.Event // none without a watcher: then looks do
	if watcher, err := fsnotify.NewWatcher(); err == nil {
		defer func() { _ = watcher.Close() }()
		if watcher.Add(filepath.Dir(r.file)) == nil {
			events = watcher.Events
			go func() {
				for range watcher.Errors { // a look makes up for what is lost
				}
			}()
		}
	}
	timer := time.NewTimer(settle) // what changed since the file was read
	defer timer.Stop()
	seen := r.text
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			timer.Reset(settle)
			continue
		case <-timer.C:
			timer.Reset(look)
		}
		if text, err := os.ReadFile(r.file); err == nil && !bytes.Equal(text, seen) {
			seen = text
			changed()
		}
	}
}
