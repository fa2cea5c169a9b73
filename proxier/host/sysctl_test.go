package host

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// tree makes files below a fresh root and returns it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func content(t *testing.T, root, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestEnsureSysctls(t *testing.T) {
	root := tree(t, map[string]string{"right": "1\n", "wrong": "0\n", "small": "100\n", "large": "300\n", "told": "0\n", "text": "many\n"})
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	for _, name := range []string{"right", "large", "told"} {
		if err := os.Chtimes(filepath.Join(root, name), past, past); err != nil {
			t.Fatal(err)
		}
	}
	problems := EnsureSysctls(root, []Sysctl{
		{Key: "right", Want: "1"},
		{Key: "wrong", Want: "1"},
		{Key: "small", Want: "200", Rule: RaiseSysctl},
		{Key: "large", Want: "200", Rule: RaiseSysctl},
		{Key: "text", Want: "200", Rule: RaiseSysctl},
		{Key: "told", Want: "1", Rule: ReportSysctl, Breaks: "nothing goes"},
		{Key: "net/missing", Want: "1", Breaks: "a thing goes wrong"},
	})
	for name, want := range map[string]string{"right": "1\n", "wrong": "1", "small": "200", "large": "300\n", "text": "200", "told": "0\n"} {
		if got := content(t, root, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, name := range []string{"right", "large", "told"} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || !info.ModTime().Equal(past) {
			t.Errorf("%s was written: %v", name, err)
		}
	}
	if len(problems) != 2 {
		t.Fatalf("problems %v, want two", problems)
	}
	if got, want := problems[0].String(), "told is 0, want 1: nothing goes"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	if got := problems[1].String(); !errors.Is(problems[1].Err, fs.ErrNotExist) ||
		!strings.HasPrefix(got, "net.missing cannot be read, want 1 (") || !strings.HasSuffix(got, "): a thing goes wrong") {
		t.Errorf("told %q", got)
	}
	if _, err := os.Stat(filepath.Join(root, "net/missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing setting was made: %v", err)
	}
}

// A setting that cannot be written is no problem while it has the right value. Root
// may write any file, so /proc/sys itself has to show it: ostype is read-only for all.
func TestEnsureSysctlsReadOnly(t *testing.T) {
	if problems := EnsureSysctls(ProcSys, []Sysctl{{Key: "kernel/ostype", Want: "Linux"}}); problems != nil {
		t.Errorf("right value is a problem: %v", problems)
	}
	problems := EnsureSysctls(ProcSys, []Sysctl{{Key: "kernel/ostype", Want: "Plan9", Breaks: "a thing"}})
	if len(problems) != 1 || problems[0].Have != "Linux" || problems[0].Err == nil {
		t.Errorf("wrong value gives %+v", problems)
	}
}

// A setting that takes the write and stays as it is must not pass for right.
func TestEnsureSysctlsIgnoredWrite(t *testing.T) {
	root := t.TempDir()
	if err := unix.Mkfifo(filepath.Join(root, "deaf"), 0o644); err != nil {
		t.Fatal(err)
	}
	// Whatever is written into the pipe is lost; each reader gets the same text.
	go func() {
		for range 2 {
			if err := os.WriteFile(filepath.Join(root, "deaf"), []byte("0\n"), 0); err != nil {
				return
			}
			if f, err := os.OpenFile(filepath.Join(root, "deaf"), os.O_RDONLY, 0); err == nil {
				_, _ = f.Read(make([]byte, 9))
				_ = f.Close()
			}
		}
	}()
	problem, ok := ensureSysctl(root, Sysctl{Key: "deaf", Want: "1"})
	if ok || problem.Have != "0" {
		t.Errorf("ok %v, problem %+v", ok, problem)
	}
}

func TestSysctls(t *testing.T) {
	value := func(o SysctlOptions) map[string]string {
		m := map[string]string{}
		for _, s := range Sysctls(o) {
			m[s.Key] = s.Want
			if s.Rule == ReportSysctl {
				m[s.Key] += " told"
			}
			if s.Breaks == "" {
				t.Errorf("%s does not say what breaks", s.Key)
			}
		}
		return m
	}
	all := value(SysctlOptions{Release: "6.1.0-57-amd64", IPv6: true, StrictARP: true})
	want := map[string]string{
		"net/ipv4/vs/conntrack": "1", "net/ipv4/vs/expire_nodest_conn": "1", "net/ipv4/vs/expire_quiescent_template": "1",
		"net/ipv4/vs/conn_reuse_mode": "1", "net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1 told",
		"net/ipv4/conf/all/arp_ignore": "1", "net/ipv4/conf/all/arp_announce": "2",
	}
	for k, v := range want {
		if all[k] != v {
			t.Errorf("%s: %q, want %q", k, all[k], v)
		}
	}
	if len(all) != len(want) {
		t.Errorf("%d settings, want %d: %v", len(all), len(want), all)
	}
	if few := value(SysctlOptions{Release: "6.1"}); len(few) != 5 {
		t.Errorf("without options: %v", few)
	}
	for release, mode := range map[string]string{"5.8.18-300.fc33": "0", "4.19.0": "0", "5.9.0": "1", "5.10": "1", "6.18.44-x": "1", "": "1"} {
		if got := value(SysctlOptions{Release: release})["net/ipv4/vs/conn_reuse_mode"]; got != mode {
			t.Errorf("kernel %q: conn_reuse_mode %s, want %s", release, got, mode)
		}
	}
}

func TestConntrack(t *testing.T) {
	def := Conntrack{MaxPerCore: 32768, Min: 131072, TCPEstablished: 24 * time.Hour, TCPCloseWait: time.Hour}
	for cpus, want := range map[int]int{1: 131072, 4: 131072, 8: 262144, 32: 1048576, 64: 1048576} {
		if got := def.Max(cpus); got != want {
			t.Errorf("%d CPUs: %d, want %d", cpus, got, want)
		}
	}
	if got := (Conntrack{MaxPerCore: 32768, Min: 2097152}).Max(64); got != 1048576 {
		t.Errorf("beyond the bound: %d", got)
	}
	root := tree(t, map[string]string{
		"net/netfilter/nf_conntrack_max":                     "65536\n",
		"net/netfilter/nf_conntrack_tcp_timeout_established": "432000\n",
		"net/netfilter/nf_conntrack_tcp_timeout_close_wait":  "60\n",
		"module/nf_conntrack/parameters/hashsize":            "65536\n",
	})
	if p := EnsureSysctls(root, append(def.Sysctls(2), def.HashSize(2)...)); p != nil {
		t.Fatal(p)
	}
	for name, want := range map[string]string{
		"net/netfilter/nf_conntrack_max":                     "131072",
		"net/netfilter/nf_conntrack_tcp_timeout_established": "86400",
		"net/netfilter/nf_conntrack_tcp_timeout_close_wait":  "3600",
		"module/nf_conntrack/parameters/hashsize":            "65536\n",
	} {
		if got := content(t, root, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if got := append((Conntrack{}).Sysctls(8), (Conntrack{}).HashSize(8)...); got != nil {
		t.Errorf("the zero value wants %v", got)
	}
	more := Conntrack{UDP: time.Minute, UDPStream: 3 * time.Minute, TCPBeLiberal: true}.Sysctls(8)
	if len(more) != 3 || more[0].Want != "60" || more[1].Want != "180" || more[2].Want != "1" {
		t.Errorf("settings %+v", more)
	}
}

// TestCaseD19LeastUDP (kubernetes/kubernetes#120076): what was not chosen is raised to
// IPVS's limit of UDP, and what was chosen or is larger stays.
func TestCaseD19LeastUDP(t *testing.T) {
	root := tree(t, map[string]string{
		"net/netfilter/nf_conntrack_udp_timeout":        "30\n",
		"net/netfilter/nf_conntrack_udp_timeout_stream": "500\n",
	})
	if p := EnsureSysctls(root, Conntrack{LeastUDP: 5 * time.Minute}.Sysctls(1)); p != nil {
		t.Fatal(p)
	}
	for name, want := range map[string]string{"udp_timeout": "300", "udp_timeout_stream": "500\n"} {
		if got := content(t, root, "net/netfilter/nf_conntrack_"+name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	chosen := Conntrack{LeastUDP: 5 * time.Minute, UDP: time.Minute, UDPStream: 2 * time.Minute}.Sysctls(1)
	if len(chosen) != 2 || chosen[0].Want != "60" || chosen[1].Want != "120" {
		t.Errorf("settings %+v", chosen)
	}
}

func TestOnlineCPUs(t *testing.T) {
	for text, want := range map[string]int{"0\n": 1, "0-3\n": 4, "0-3,8,10-11\n": 7} {
		root := tree(t, map[string]string{"devices/system/cpu/online": text})
		if got, err := OnlineCPUs(root); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "a", "3-1", "0-", "-1"} {
		root := tree(t, map[string]string{"devices/system/cpu/online": text})
		if got, err := OnlineCPUs(root); err == nil {
			t.Errorf("%q: %d without error", text, got)
		}
	}
	if _, err := OnlineCPUs(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
}
