package main

import (
	"fmt"
	"path"
	"strings"
)

// bootModules are what the first file system needs to reach the host's files
// and to talk to the host; everything else is loaded from there by modprobe.
var bootModules = []string{"virtio_pci", "virtio_console", "9p", "9pnet_virtio", "overlay"}

// moduleOrder lists the files to load, relative to lib/modules/VERSION and
// each once, for the named modules and all they depend on. dep and builtin are
// the texts of modules.dep and modules.builtin as depmod writes them.
func moduleOrder(dep, builtin string, names []string) ([]string, error) {
	needs := map[string][]string{} // by file
	files := map[string]string{}   // by module name
	for _, line := range strings.Split(dep, "\n") {
		file, deps, ok := strings.Cut(line, ":")
		if !ok {
			continue
		}
		needs[file] = strings.Fields(deps)
		files[moduleName(file)] = file
	}
	compiledIn := map[string]bool{}
	for _, file := range strings.Fields(builtin) {
		compiledIn[moduleName(file)] = true
	}
	var order []string
	done := map[string]bool{}
	add := func(file string) {
		if !done[file] {
			done[file] = true
			order = append(order, file)
		}
	}
	for _, name := range names {
		file, ok := files[name]
		if !ok {
			if compiledIn[name] {
				continue
			}
			return nil, fmt.Errorf("the kernel has no module %s", name)
		}
		// modules.dep lists all dependencies, the deepest last.
		for i := len(needs[file]) - 1; i >= 0; i-- {
			add(needs[file][i])
		}
		add(file)
	}
	return order, nil
}

// moduleName is the name modprobe knows a file by: "kernel/a/b-c.ko" is b_c.
func moduleName(file string) string {
	name, _, _ := strings.Cut(path.Base(file), ".")
	return strings.ReplaceAll(name, "-", "_")
}
