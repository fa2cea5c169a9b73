package main

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"
	"slices"
)

// The steady machine's clock goes on with the host's while the machine waits for the
// host: for each opening of a file, a while on a busy host. So what programs open again
// and again there, themselves and their libraries, is kept in the machine's memory.

// keptFiles are those besides the programs of userland.
var keptFiles = []string{
	"/etc/protocols", "/etc/services", "/etc/nsswitch.conf", "/etc/hosts", "/etc/passwd", "/etc/group",
	"/etc/ld.so.cache", "/etc/iproute2/*", "/etc/modprobe.d/*", "/usr/lib/*/xtables/*.so", "/bin/sh", "/bin/true",
}

// kept lists the files, by their real paths.
func kept() []string {
	found := map[string]bool{}
	for _, t := range userland {
		if path, err := lookTool(t.command); err == nil {
			keepProgram(found, path)
		}
	}
	for _, pattern := range keptFiles {
		files, _ := filepath.Glob(pattern) // the patterns are valid
		for _, file := range files {
			keepProgram(found, file)
		}
	}
	var list []string
	for path := range found {
		if filepath.IsAbs(path) { // else the name of a library
			list = append(list, path)
		}
	}
	slices.Sort(list)
	return list
}

// keepProgram adds a file, and the libraries that it needs if it is a program.
func keepProgram(found map[string]bool, path string) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil || found[path] {
		return
	}
	if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
		return
	}
	found[path] = true
	f, err := elf.Open(path)
	if err != nil {
		return // no program
	}
	defer func() { _ = f.Close() }()
	names, _ := f.ImportedLibraries() // a static one has none
	for _, name := range append(names, "ld-linux-x86-64.so.2") {
		if found[name] {
			continue
		}
		found[name] = true
		for _, pattern := range []string{"/usr/lib/", "/usr/lib/*/", "/usr/lib64/", "/lib/*/", "/lib64/"} {
			files, _ := filepath.Glob(pattern + name)
			for _, file := range files {
				keepProgram(found, file)
			}
		}
	}
}

// keep copies files of an overlay's lower layer into its upper one, which the kernel does
// when they are opened for writing.
func keep(root string, files []string) error {
	var errs []error
	for _, path := range files {
		f, err := os.OpenFile(filepath.Join(root, path), os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			err = f.Close()
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
