package watch

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// stamp tells states of a file apart without reading it.
type stamp struct {
	size  int64
	mtime int64 // nanoseconds since 1970
	inode uint64
}

// revision names the state of a folder: the sum of a hash for each file, so that
// it can be kept up to date file by file and does not depend on their order.
type revision [2]uint64

// String returns 32 hexadecimal digits.
func (r revision) String() string { return fmt.Sprintf("%016x%016x", r[0], r[1]) }

// add puts a file in, sub takes it out.
func (r *revision) add(name string, s stamp) {
	h := s.hash(name)
	r[0] += h[0]
	r[1] += h[1]
}

func (r *revision) sub(name string, s stamp) {
	h := s.hash(name)
	r[0] -= h[0]
	r[1] -= h[1]
}

// hash mixes name, size and time of a file; the inode is of no interest to others.
func (s stamp) hash(name string) revision {
	text := append([]byte(name), 0)
	text = binary.BigEndian.AppendUint64(text, uint64(s.size))
	text = binary.BigEndian.AppendUint64(text, uint64(s.mtime))
	sum := sha256.Sum256(text)
	return revision{binary.BigEndian.Uint64(sum[:8]), binary.BigEndian.Uint64(sum[8:16])}
}

// FolderRevision names the present state of the manifests in dir: their names,
// sizes and times of modification. A program that wrote files there waits until
// Dirty.Revision is equal, and knows that exactly this state was taken in.
func FolderRevision(dir string) (string, error) {
	found, err := listFolder(dir)
	if err != nil {
		return "", err
	}
	var sum revision
	for name, s := range found.stamps {
		sum.add(name, s)
	}
	return sum.String(), nil
}

// isManifest reports whether a file of this name is read: not what is hidden, and
// not what editors leave while they write.
func isManifest(name string) bool {
	if name == "" || strings.ContainsRune(".#~", rune(name[0])) {
		return false
	}
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(name)))
}

// listing is what a folder holds.
type listing struct {
	stamps map[string]stamp
	// problems are the names that lead nowhere or to no regular file.
	problems []Problem
}

// listFolder lists the manifests in dir.
func listFolder(dir string) (listing, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return listing{}, fmt.Errorf("read manifest folder: %w", err)
	}
	l := listing{stamps: make(map[string]stamp, len(entries))}
	for _, e := range entries {
		if !isManifest(e.Name()) || e.IsDir() {
			continue
		}
		link := e.Type()&os.ModeSymlink != 0
		s, err := stampOf(filepath.Join(dir, e.Name()))
		switch {
		case os.IsNotExist(err) && !link: // removed just now
		case err != nil:
			l.problems = append(l.problems, Problem{File: e.Name(), Reason: err.Error()})
		default:
			l.stamps[e.Name()] = s
		}
	}
	return l, nil
}

// stampOf returns the stamp of the regular file that path leads to.
func stampOf(path string) (stamp, error) {
	info, err := os.Stat(path)
	if err != nil {
		return stamp{}, err
	}
	return stampFrom(info)
}

// stampFrom takes the stamp out of info; only regular files have one.
func stampFrom(info os.FileInfo) (stamp, error) {
	if !info.Mode().IsRegular() {
		return stamp{}, fmt.Errorf("is not a regular file but %s", info.Mode().Type())
	}
	s := stamp{size: info.Size(), mtime: info.ModTime().UnixNano()}
	if sys, ok := info.Sys().(*syscall.Stat_t); ok {
		s.inode = sys.Ino
	}
	return s, nil
}

// maxLinks is how many symbolic links a path may go through, as in the kernel.
const maxLinks = 40

// resolve follows path as the kernel does. It returns the real path and every
// symbolic link on the way, each by its own real place.
func resolve(path string) (real string, links []string, err error) {
	path, err = filepath.Abs(path)
	if err != nil {
		return "", nil, err
	}
	real, rest := "/", strings.Split(path, "/")
	for len(rest) > 0 {
		part := rest[0]
		rest = rest[1:]
		if part == "" || part == "." {
			continue
		}
		if part == ".." {
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, part)
		info, err := os.Lstat(next)
		if err != nil {
			return "", links, err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			real = next
			continue
		}
		if links = append(links, next); len(links) > maxLinks {
			return "", links, fmt.Errorf("%s: too many symbolic links", path)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", links, err
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
	return real, links, nil
}
