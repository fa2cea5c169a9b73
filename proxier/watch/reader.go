package watch

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"
)

const (
	// maxFile is the largest file that is read.
	maxFile = 256 << 20
	// emptyGrace is how long a file that lost all its content keeps its objects: a
	// shell empties a file at once and the command behind it writes later.
	emptyGrace = time.Second
	// batchBytes is how much text is held while it is decoded.
	batchBytes = 4 << 20
)

// file is one file of the folder as it was last read.
type file struct {
	stamp stamp
	hash  uint64
	docs  []*document
	// objects are those of docs, and while a document is broken also those that the
	// file held before and that no document holds now.
	objects  []*object
	problems []Problem
	// whole: the file was once read without a broken document.
	whole bool
}

// update is what a refresh found: the files that changed, nil for those that are
// gone.
type update struct {
	files map[string]*file
	// listed: the folder was listed or could not be; folder are the problems of
	// that, and whole says that there was none.
	listed, whole bool
	folder        []Problem
	// retry asks for another refresh after this time; zero: none.
	retry time.Duration
}

// counters count work, for tests of what a change costs.
type counters struct{ read, decoded int }

// reader keeps what was read of a folder. One goroutine uses it.
type reader struct {
	dir   string
	seed  maphash.Seed
	files map[string]*file
	sum   revision
	// partial counts the files of which not every document was ever read.
	partial int
	count   counters
}

func newReader(dir string) *reader {
	return &reader{dir: dir, seed: maphash.MakeSeed(), files: make(map[string]*file)}
}

// everything reads the whole folder; files whose stamp is the same are not opened
// unless they are in names. A folder that cannot be listed changes nothing.
func (r *reader) everything(names map[string]bool) update {
	found, err := listFolder(r.dir)
	if err != nil {
		return update{folder: []Problem{{Reason: err.Error() + "; the last good state stays"}}, listed: true, retry: time.Second}
	}
	u := update{files: make(map[string]*file), folder: found.problems, listed: true, whole: len(found.problems) == 0}
	unreadable := make(map[string]bool, len(found.problems))
	for _, p := range found.problems {
		unreadable[p.File] = true
	}
	var changed []string
	for name, s := range found.stamps {
		if f := r.files[name]; f == nil || f.stamp != s || names[name] {
			changed = append(changed, name)
		}
	}
	for name := range r.files {
		if _, there := found.stamps[name]; !there && !unreadable[name] {
			r.remove(name, &u)
		}
	}
	slices.Sort(changed)
	r.load(changed, &u)
	return u
}

// some reads the files of these names, whatever their stamps say. It returns false
// and does nothing when the whole folder must be looked at.
func (r *reader) some(names map[string]bool) (update, bool) {
	var changed, gone []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		info, err := os.Lstat(filepath.Join(r.dir, name))
		switch {
		case os.IsNotExist(err):
			gone = append(gone, name)
		case err != nil || !info.Mode().IsRegular():
			return update{}, false
		default:
			changed = append(changed, name)
		}
	}
	// When the folder itself is gone, no file in it was removed.
	if _, err := os.Stat(r.dir); err != nil {
		return update{}, false
	}
	u := update{files: make(map[string]*file)}
	for _, name := range gone {
		r.remove(name, &u)
	}
	r.load(changed, &u)
	return u, true
}

// remove forgets a file.
func (r *reader) remove(name string, u *update) {
	if f := r.files[name]; f != nil {
		r.forget(name, f)
		delete(r.files, name)
		u.files[name] = nil
	}
}

// forget takes the state of a file out of the sums.
func (r *reader) forget(name string, f *file) {
	r.sum.sub(name, f.stamp)
	if !f.whole {
		r.partial--
	}
}

// loaded is a file whose text is at hand and not yet decoded.
type loaded struct {
	name  string
	file  *file
	texts []text
}

// load reads the named files and decodes what changed in them, some at a time.
func (r *reader) load(names []string, u *update) {
	var batch []loaded
	var jobs []job
	size := 0
	finish := func() {
		run(jobs)
		r.count.decoded += len(jobs)
		for _, l := range batch {
			r.finish(l, u)
		}
		batch, jobs, size = nil, nil, 0
	}
	for _, name := range names {
		data, s, err := readFile(filepath.Join(r.dir, name))
		r.count.read++
		if err != nil {
			// Without a stamp it went away just now, and there will be an event.
			if s != (stamp{}) {
				r.unreadable(name, s, err, u)
			}
			continue
		}
		if l, ok := r.open(name, data, s, u); ok {
			batch = append(batch, l)
			jobs = append(jobs, l.jobs(r.seed)...)
		}
		if size += len(data); size >= batchBytes {
			finish()
		}
	}
	finish()
}

// open cuts a file into documents and finds those that are known. It is false when
// nothing is to be decoded.
func (r *reader) open(name string, data []byte, s stamp, u *update) (loaded, bool) {
	old := r.files[name]
	hash := maphash.Bytes(r.seed, data)
	if old != nil && old.stamp.size == s.size && old.hash == hash && old.docs != nil {
		r.sum.sub(name, old.stamp)
		old.stamp = s
		r.sum.add(name, s)
		return loaded{}, false
	}
	age := time.Since(time.Unix(0, s.mtime))
	if len(bytes.TrimSpace(data)) == 0 && old != nil && len(old.objects) > 0 && age >= 0 && age < emptyGrace {
		u.retry = max(u.retry, emptyGrace-age+time.Millisecond)
		return loaded{}, false
	}
	f := &file{stamp: s, hash: hash, whole: old != nil && old.whole, docs: []*document{}}
	split := splitYAML
	if isJSON(name, data) {
		split = splitJSON
	}
	l := loaded{name: name, file: f, texts: split(data)}
	known := make(map[uint64]*document)
	if old != nil {
		for _, d := range old.docs {
			known[d.hash] = d
		}
	}
	for _, t := range l.texts {
		if t.err != nil {
			f.docs = append(f.docs, nil)
			continue
		}
		f.docs = append(f.docs, known[t.hash(r.seed)])
	}
	return l, true
}

// jobs are the documents that are not known yet.
func (l loaded) jobs(seed maphash.Seed) []job {
	var out []job
	for i, t := range l.texts {
		if l.file.docs[i] == nil {
			out = append(out, job{text: t, hash: t.hash(seed), into: &l.file.docs[i]})
		}
	}
	return out
}

// isJSON reports whether a file is cut as JSON.
func isJSON(name string, data []byte) bool {
	data = bytes.TrimSpace(data)
	return filepath.Ext(name) == ".json" && len(data) > 0 && (data[0] == '{' || data[0] == '[')
}

// unreadable keeps the last good state of a file that could not be read.
func (r *reader) unreadable(name string, s stamp, err error, u *update) {
	f := &file{stamp: s, problems: []Problem{{File: name, Reason: err.Error() + "; the last good state of the file's objects stays"}}}
	if old := r.files[name]; old != nil {
		f.objects, f.whole = old.objects, old.whole
	}
	r.keep(name, f, u)
}

// finish puts a decoded file in its place.
func (r *reader) finish(l loaded, u *update) {
	f := l.file
	broken := false
	here := make(map[objectKey]bool)
	for i, d := range f.docs {
		broken = broken || d.broken
		for _, p := range d.problems {
			p.File, p.Document = l.name, l.texts[i].number
			p.Line = l.texts[i].line + max(p.Line, 1) - 1
			f.problems = append(f.problems, p)
		}
		for _, o := range d.objects {
			here[o.key] = true
			f.objects = append(f.objects, o)
		}
	}
	if old := r.files[l.name]; old != nil && broken {
		for _, o := range old.objects {
			if !here[o.key] {
				f.objects = append(f.objects, o)
			}
		}
	}
	f.whole = f.whole || !broken
	for _, o := range f.objects {
		for _, p := range o.problems {
			p.File = l.name
			f.problems = append(f.problems, p)
		}
	}
	r.keep(l.name, f, u)
}

// keep makes f the state of a file.
func (r *reader) keep(name string, f *file, u *update) {
	if old := r.files[name]; old != nil {
		r.forget(name, old)
	}
	r.files[name] = f
	r.sum.add(name, f.stamp)
	if !f.whole {
		r.partial++
	}
	u.files[name] = f
}

// readFile reads a file of which nothing changed meanwhile, and its stamp.
func readFile(path string) ([]byte, stamp, error) {
	const tries = 5
	for i := 1; ; i++ {
		data, before, err := readOnce(path)
		if err != nil {
			return nil, before, err
		}
		after, err := stampOf(path)
		if err == nil && after == before || i == tries {
			return data, before, nil
		}
	}
}

// readOnce reads a file and the stamp it had when it was opened.
func readOnce(path string) ([]byte, stamp, error) {
	s, err := stampOf(path)
	if err != nil {
		return nil, s, err
	}
	if s.size > maxFile {
		return nil, s, fmt.Errorf("has %d bytes, and at most %d are read", s.size, maxFile)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, s, err
	}
	defer func() { _ = f.Close() }() // only read
	data := make([]byte, 0, s.size+1)
	buffer := bytes.NewBuffer(data)
	if _, err := io.Copy(buffer, io.LimitReader(f, maxFile)); err != nil {
		return nil, s, err
	}
	return buffer.Bytes(), s, nil
}
