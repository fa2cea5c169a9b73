package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// readArchive reads a newc archive by the format's own rules: "name mode body"
// of each entry up to the trailer.
func readArchive(data []byte) ([]string, error) {
	var entries []string
	for at := 0; ; {
		if len(data) < at+110 || string(data[at:at+6]) != "070701" {
			return nil, fmt.Errorf("no header at %d", at)
		}
		field := func(i int) int {
			n, err := strconv.ParseUint(string(data[at+6+8*i:at+14+8*i]), 16, 32)
			if err != nil {
				return -1
			}
			return int(n)
		}
		mode, size, nameSize := field(1), field(6), field(11)
		name := string(data[at+110 : at+110+nameSize-1])
		if data[at+110+nameSize-1] != 0 {
			return nil, fmt.Errorf("name at %d has no end", at)
		}
		body := (at + 110 + nameSize + 3) / 4 * 4
		if name == "TRAILER!!!" {
			return entries, nil
		}
		entries = append(entries, fmt.Sprintf("%s %o %s", name, mode, data[body:body+size]))
		at = (body + size + 3) / 4 * 4
	}
}

func TestArchive(t *testing.T) {
	files := []archiveFile{
		{name: "init", mode: 0o755, body: []byte("12345")},
		{name: "d", mode: 0o755},
		{name: "d/ab", mode: 0o644, body: []byte("1234")},
		{name: "d/abc", mode: 0o644, body: []byte{}},
		{name: "d/abcd", mode: 0o644, body: []byte("123")},
	}
	var out bytes.Buffer
	if err := writeArchive(&out, files); err != nil {
		t.Fatal(err)
	}
	got, err := readArchive(out.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"init 100755 12345", "d 40755 ", "d/ab 100644 1234", "d/abc 100644 ", "d/abcd 100644 123"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

const modulesDep = `kernel/net/9p/9pnet.ko:
kernel/fs/9p/9p.ko: kernel/fs/fscache/fscache.ko kernel/fs/netfs/netfs.ko kernel/net/9p/9pnet.ko
kernel/fs/netfs/netfs.ko:
kernel/fs/fscache/fscache.ko: kernel/fs/netfs/netfs.ko
kernel/net/9p/9pnet_virtio.ko: kernel/net/9p/9pnet.ko
kernel/x/with-dash.ko:
`

func TestModuleOrder(t *testing.T) {
	got, err := moduleOrder(modulesDep, "kernel/drivers/virtio/virtio_pci.ko\n", []string{"virtio_pci", "9p", "9pnet_virtio", "with_dash"})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"kernel/net/9p/9pnet.ko", "kernel/fs/netfs/netfs.ko", "kernel/fs/fscache/fscache.ko",
		"kernel/fs/9p/9p.ko", "kernel/net/9p/9pnet_virtio.ko", "kernel/x/with-dash.ko"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := moduleOrder(modulesDep, "", []string{"overlay"}); err == nil || !strings.Contains(err.Error(), "overlay") {
		t.Errorf("missing module: error %v", err)
	}
}

func TestQEMUArgs(t *testing.T) {
	o, err := parseOptions([]string{"--cpus=3", "--memory=1G", "true"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	line := strings.Join(qemuArgs(o, "/k/vmlinuz", "/a,b", "/s"), " ")
	for _, want := range []string{"-accel tcg,thread=multi -smp 3", "no_timer_check", "-m 1G", "-kernel /k/vmlinuz",
		"path=/,mount_tag=hostroot,security_model=none,multidevs=remap,readonly=on", "path=/a,,b,mount_tag=results"} {
		if !strings.Contains(line, want) {
			t.Errorf("no %q in %s", want, line)
		}
	}
	if strings.Contains(line, "-netdev") {
		t.Errorf("a network that nobody asked for: %s", line)
	}
	o.api = 6000
	args := qemuArgs(o, "/k/vmlinuz", "", "/a, b/it's")
	if want := `user,id=api,restrict=on,ipv6=off,guestfwd=tcp:10.0.2.100:6443-cmd:'/a,, b/it'\''s' pipe-to 127.0.0.1:6000`; !slices.Contains(args, want) {
		t.Errorf("no %s in %q", want, args)
	}
	o.steady = true
	steady := strings.Join(qemuArgs(o, "/k/vmlinuz", "", "/s"), " ")
	for _, want := range []string{"-accel tcg,thread=single -smp 1 -icount shift=0,sleep=on", "nokaslr"} {
		if !strings.Contains(steady, want) || strings.Contains(line, want) {
			t.Errorf("%q belongs to the steady machine alone:\n%s\n%s", want, steady, line)
		}
	}
	if strings.Contains(line+steady, "kvm") || strings.Contains(steady, tagResults) {
		t.Errorf("kvm, or a results folder that nobody asked for:\n%s\n%s", line, steady)
	}
}

// TestCachedKernel: a folder without modules.dep or image is no kernel, the
// newest of the others is taken.
func TestCachedKernel(t *testing.T) {
	dir := t.TempDir()
	if k, ok := cachedKernel(dir); ok {
		t.Fatalf("found %+v in an empty cache", k)
	}
	add := func(version string, withModules bool, age time.Duration) {
		image := filepath.Join(dir, "linux-image-"+version, "boot", "vmlinuz-"+version)
		modules := filepath.Join(dir, "linux-image-"+version, "lib", "modules", version)
		when := time.Now().Add(-age)
		for _, d := range []string{filepath.Dir(image), modules} {
			if err := os.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(image, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(image, when, when); err != nil {
			t.Fatal(err)
		}
		if withModules {
			if err := os.WriteFile(filepath.Join(modules, "modules.dep"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	add("6.1.0-9-amd64", true, time.Hour)
	add("6.1.0-10-amd64", true, time.Minute)
	add("6.1.0-11-amd64", false, 0)
	k, ok := cachedKernel(dir)
	if !ok || k.version != "6.1.0-10-amd64" || k.root != filepath.Join(dir, "linux-image-6.1.0-10-amd64") {
		t.Errorf("got %+v, %v", k, ok)
	}
}
