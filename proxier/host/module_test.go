package host

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// testModules is a host with one module loaded, one with parameters, one built in.
func testModules(t *testing.T) moduleHost {
	root := tree(t, map[string]string{
		"proc/modules":                 "ip_vs 196608 2 ip_vs_rr, Live 0x0\nnf_conntrack 1 0 - Live 0x0\n",
		"proc/sys/kernel/osrelease":    "6.1.0-x\n",
		"sys/module/ip_set/parameters": "",
		"lib/6.1.0-x/modules.builtin":  "kernel/net/netfilter/xt_set.ko\nkernel/net/netfilter/xt-mark.ko\n",
	})
	join := func(name string) string { return filepath.Join(root, name) }
	return moduleHost{proc: join("proc"), sys: join("sys"), lib: join("lib"), modprobe: join("modprobe")}
}

func TestLoadModulesSigns(t *testing.T) {
	names := []string{"ip_vs", "nf_conntrack", "ip_set", "xt_set", "xt_mark", "dummy", "ip_vs_rr"}
	got := testModules(t).load(t.Context(), names)
	if want := []string{"dummy", "ip_vs_rr"}; !slices.Equal(got, want) {
		t.Errorf("missing %v, want %v", got, want)
	}
	empty := moduleHost{proc: "/nonexistent", sys: "/nonexistent", lib: "/nonexistent", modprobe: "/nonexistent"}
	if got := empty.load(t.Context(), names); !slices.Equal(got, names) {
		t.Errorf("nothing to see: missing %v, want all", got)
	}
}

func TestLoadModulesCallsModprobeOnce(t *testing.T) {
	h := testModules(t)
	script := "#!/bin/sh\necho \"$@\" >>" + h.modprobe + ".log\nmkdir -p " + h.sys + "/module/dummy\nexit 1\n"
	if err := os.WriteFile(h.modprobe, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := h.load(t.Context(), []string{"ip_vs", "dummy", "nonesuch"}); !slices.Equal(got, []string{"nonesuch"}) {
		t.Errorf("missing %v", got)
	}
	if got := content(t, filepath.Dir(h.modprobe), "modprobe.log"); got != "-a -q -- dummy nonesuch\n" {
		t.Errorf("modprobe was called with %q", got)
	}
	if err := os.Remove(h.modprobe + ".log"); err != nil {
		t.Fatal(err)
	}
	if got := h.load(t.Context(), []string{"ip_vs", "dummy"}); got != nil {
		t.Errorf("missing %v", got)
	}
	if _, err := os.Stat(h.modprobe + ".log"); err == nil {
		t.Error("modprobe was called for nothing")
	}
}

func TestModulesOfScheduler(t *testing.T) {
	if got := Modules("mh"); !slices.Contains(got, "ip_vs_mh") || !slices.Contains(got, "ip_vs") {
		t.Errorf("modules %v", got)
	}
	if got := Modules(""); slices.Contains(got, "ip_vs_") {
		t.Errorf("modules %v", got)
	}
}

func TestPreflight(t *testing.T) {
	good := Probe{Name: "good", Check: func(context.Context) error { return nil }}
	if err := Preflight(t.Context(), []Probe{good}); err != nil {
		t.Errorf("all good: %v", err)
	}
	boom := errors.New("boom")
	bad := Probe{Name: "ip_vs", Fix: "modprobe ip_vs", Check: func(context.Context) error { return boom }}
	err := Preflight(t.Context(), []Probe{bad, good, programs("tool", "no-such-program", "nor-this")})
	if !errors.Is(err, boom) {
		t.Errorf("error %v", err)
	}
	want := "node lacks ip_vs: boom (modprobe ip_vs); tool: "
	if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %q, want %q...", err, want)
	}
	var lacks PreflightError
	if !errors.As(err, &lacks) || len(lacks) != 2 || lacks[0].Name != "ip_vs" {
		t.Errorf("error %#v", err)
	}
}

// The kernel really is asked: what it cannot have is unknown in both ways.
func TestSetMatchUnknown(t *testing.T) {
	if err := legacyMatch("nonesuch", 0); err == nil {
		t.Error("the legacy back end knows a match that does not exist")
	}
	if err := nftMatch("nonesuch", 0); err == nil {
		t.Error("the nft back end knows a match that does not exist")
	}
}
