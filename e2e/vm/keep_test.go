package main

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"testing"
)

// A program is kept with the libraries that it needs, each by its real path.
func TestKeptWithLibraries(t *testing.T) {
	path, err := lookTool("sh")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	keepProgram(found, path)
	libc := false
	for file := range found {
		if !filepath.IsAbs(file) {
			continue
		}
		if real, err := filepath.EvalSymlinks(file); err != nil || real != file {
			t.Errorf("%s is not a real path (%s, %v)", file, real, err)
		}
		libc = libc || filepath.Base(file) == "libc.so.6"
	}
	if !libc {
		t.Errorf("no libc for %s: %v", path, found)
	}
	if list := kept(); !slices.Contains(list, "/etc/protocols") || !slices.IsSorted(list) {
		t.Errorf("%v", list)
	}
	// What is not there is an error, and not made.
	if err := keep(t.TempDir(), []string{"/missing"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
