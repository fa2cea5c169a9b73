package host

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// modprobeTimeout bounds the one call of modprobe: a module that hangs while it
// starts must not hang the proxy.
const modprobeTimeout = 20 * time.Second

// Modules returns the kernel modules that the proxy uses, so that they can be
// loaded before the first request. The scheduler's own module follows its name.
func Modules(scheduler string) []string {
	list := []string{"ip_vs"}
	if scheduler != "" {
		list = append(list, "ip_vs_"+scheduler)
	}
	return append(list, "nf_conntrack", "ip_set", "xt_set", "xt_mark", "xt_conntrack", "xt_comment", "dummy")
}

// LoadModules loads the modules that the kernel has neither loaded nor built in, by
// one call of modprobe where there is one, and returns those for which there is no
// sign afterwards. Such a module may still be there (built in without a trace, or
// loaded by the kernel on first use): Preflight asks the kernel itself.
func LoadModules(ctx context.Context, names []string) (missing []string) {
	return moduleHost{proc: "/proc", sys: Sys, lib: "/lib/modules", modprobe: "modprobe"}.load(ctx, names)
}

// moduleHost is where the signs of modules are looked for.
type moduleHost struct {
	proc, sys, lib string
	modprobe       string // program name or path
}

func (h moduleHost) load(ctx context.Context, names []string) []string {
	missing := h.missing(names)
	if len(missing) == 0 {
		return nil
	}
	path, err := exec.LookPath(h.modprobe)
	if err != nil {
		return missing
	}
	ctx, cancel := context.WithTimeout(ctx, modprobeTimeout)
	defer cancel()
	// -a goes on after a module that cannot be loaded. What came of it is looked up,
	// so the exit code says nothing more.
	cmd := exec.CommandContext(ctx, path, append([]string{"-a", "-q", "--"}, missing...)...)
	cmd.WaitDelay = time.Second
	_ = cmd.Run()
	return h.missing(missing)
}

// missing returns the modules without a sign, in the order given.
func (h moduleHost) missing(names []string) []string {
	known := map[string]bool{}
	h.addLoaded(known)
	h.addBuiltIn(known)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		name = moduleName(name)
		if known[name] {
			return true
		}
		_, err := os.Stat(filepath.Join(h.sys, "module", name))
		return err == nil
	})
}

// addLoaded reads the names out of /proc/modules; each is the first word of a line.
func (h moduleHost) addLoaded(known map[string]bool) {
	data, _ := os.ReadFile(filepath.Join(h.proc, "modules")) // missing in a kernel without modules
	for line := range strings.Lines(string(data)) {
		name, _, _ := strings.Cut(line, " ")
		known[moduleName(name)] = true
	}
}

// addBuiltIn reads modules.builtin: lines such as kernel/net/netfilter/xt_set.ko.
func (h moduleHost) addBuiltIn(known map[string]bool) {
	release, err := KernelRelease(filepath.Join(h.proc, "sys"))
	if err != nil {
		return
	}
	data, _ := os.ReadFile(filepath.Join(h.lib, release, "modules.builtin")) // missing in a container
	for line := range strings.Lines(string(data)) {
		name := strings.TrimSuffix(filepath.Base(strings.TrimSpace(line)), ".ko")
		known[moduleName(name)] = true
	}
}

// moduleName writes a name as the kernel does: file names may have dashes.
func moduleName(name string) string { return strings.ReplaceAll(strings.TrimSpace(name), "-", "_") }
