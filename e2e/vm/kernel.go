package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// kernel is an unpacked kernel package in the cache.
type kernel struct {
	root    string // holds boot/ and lib/modules/
	version string // as uname -r tells it
}

func (k kernel) image() string   { return filepath.Join(k.root, "boot", "vmlinuz-"+k.version) }
func (k kernel) modules() string { return filepath.Join(k.root, "lib", "modules") }

// module reads a file of lib/modules/VERSION.
func (k kernel) module(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(k.modules(), k.version, name))
}

// cacheDir is where downloads are kept between runs, outside any checkout.
func cacheDir() (string, error) {
	base := os.Getenv("XDG_CACHE_HOME")
	if base == "" && os.Geteuid() == 0 {
		base = "/var/cache"
	}
	if base == "" {
		home, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("no folder for the kernel: %w; set XDG_CACHE_HOME", err)
		}
		base = home
	}
	dir := filepath.Join(base, "kube-ipvs-proxy")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("cache folder: %w; set XDG_CACHE_HOME to a folder that can be written", err)
	}
	return filepath.Abs(dir)
}

// lockCache waits until no other run installs or downloads.
func lockCache() (unlock func(), err error) {
	dir, err := cacheDir()
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("cache lock: %w", err)
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cache lock: %w", err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// ensureKernel gives the newest kernel of the cache, or downloads Debian's
// stock kernel into it.
func ensureKernel() (kernel, error) {
	if runtime.GOARCH != "amd64" {
		return kernel{}, fmt.Errorf("no kernel for %s: the machine is built for amd64 only; use a host whose kernel has ip_vs", runtime.GOARCH)
	}
	dir, err := cacheDir()
	if err != nil {
		return kernel{}, err
	}
	if k, ok := cachedKernel(dir); ok {
		return k, nil
	}
	unlock, err := lockCache()
	if err != nil {
		return kernel{}, err
	}
	defer unlock()
	if k, ok := cachedKernel(dir); ok { // another run was quicker
		return k, nil
	}
	if !hasTool("apt-get") || !hasTool("dpkg") {
		return kernel{}, errors.New("no kernel in the cache, and no apt-get and dpkg to get Debian's linux-image-amd64; use a Debian host, or one whose kernel has ip_vs")
	}
	if err := downloadKernel(dir); err != nil {
		return kernel{}, err
	}
	if k, ok := cachedKernel(dir); ok {
		return k, nil
	}
	return kernel{}, fmt.Errorf("the kernel package holds no boot/vmlinuz-VERSION with lib/modules/VERSION (%s)", dir)
}

// cachedKernel finds the newest complete kernel: folders of that name appear
// by rename, so that what exists is whole.
func cachedKernel(dir string) (kernel, bool) {
	images, _ := filepath.Glob(filepath.Join(dir, "linux-image-*", "boot", "vmlinuz-*")) // the pattern is valid
	slices.SortFunc(images, func(a, b string) int { return modTime(b).Compare(modTime(a)) })
	for _, image := range images {
		k := kernel{
			root:    filepath.Dir(filepath.Dir(image)),
			version: strings.TrimPrefix(filepath.Base(image), "vmlinuz-"),
		}
		if _, err := k.module("modules.dep"); err == nil {
			return k, true
		}
	}
	return kernel{}, false
}

var kernelPackage = regexp.MustCompile(`(?m)^\s*Depends: (linux-image-[0-9][^ ]*-amd64)$`)

// downloadKernel puts the package that linux-image-amd64 stands for into dir.
func downloadKernel(dir string) error {
	var name string
	err := aptRetry(func() error {
		out, err := exec.Command("apt-cache", "depends", "linux-image-amd64").Output()
		if err != nil {
			return fmt.Errorf("apt-cache depends linux-image-amd64: %w", err)
		}
		m := kernelPackage.FindSubmatch(out)
		if m == nil {
			return errors.New("apt-cache names no kernel for linux-image-amd64: this host's apt has no Debian amd64 packages, or run: apt-get update")
		}
		name = string(m[1])
		return nil
	})
	if err != nil {
		return err
	}
	stale, _ := filepath.Glob(filepath.Join(dir, "tmp-*")) // of a run that was killed: we hold the lock
	for _, s := range stale {
		_ = os.RemoveAll(s) // costs space only
	}
	tmp, err := os.MkdirTemp(dir, "tmp-")
	if err != nil {
		return fmt.Errorf("cache folder: %w", err)
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	say("downloading %s (70 MB, once) into %s", name, dir)
	if err := aptRetry(func() error { return apt(tmp, "download", name) }); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(tmp, "*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("apt-get download %s left %d packages: %w", name, len(debs), err)
	}
	return unpackKernel(debs[0], tmp, filepath.Join(dir, name))
}

// unpackKernel makes target from a package, at once and whole.
func unpackKernel(deb, tmp, target string) error {
	root := filepath.Join(tmp, "root")
	if err := runQuiet(exec.Command("dpkg", "-x", deb, root)); err != nil {
		return err
	}
	versions, err := os.ReadDir(filepath.Join(root, "lib", "modules"))
	if err != nil || len(versions) != 1 {
		return fmt.Errorf("%s: want one folder in lib/modules, found %d: %w", filepath.Base(deb), len(versions), err)
	}
	depmod, err := lookTool("depmod")
	if err != nil {
		return err
	}
	if err := runQuiet(exec.Command(depmod, "-b", root, versions[0].Name())); err != nil {
		return err
	}
	if err := os.RemoveAll(target); err != nil { // of an earlier, broken package
		return err
	}
	return os.Rename(root, target)
}

func modTime(file string) time.Time {
	if info, err := os.Stat(file); err == nil {
		return info.ModTime()
	}
	return time.Time{}
}
