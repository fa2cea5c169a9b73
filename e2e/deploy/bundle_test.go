package deploy

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

func intText(n int32) string { return strconv.Itoa(int(n)) }

// smallProfile has one rule of every kind.
const smallProfile = `{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1,
"archMap": [{"architecture": "SCMP_ARCH_X86_64", "subArchitectures": ["SCMP_ARCH_X86"]}, {"architecture": "SCMP_ARCH_AARCH64"}],
"syscalls": [
 {"names": ["read"], "action": "SCMP_ACT_ALLOW"},
 {"names": ["socket"], "action": "SCMP_ACT_ALLOW", "args": [{"index": 0, "value": 16, "op": "SCMP_CMP_EQ"}]},
 {"names": ["mount"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_SYS_ADMIN"]}},
 {"names": ["sethostname"], "action": "SCMP_ACT_ALLOW", "includes": {"caps": ["CAP_NET_ADMIN"]}},
 {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38, "excludes": {"caps": ["CAP_SYS_ADMIN"]}},
 {"names": ["clone"], "action": "SCMP_ACT_ALLOW", "excludes": {"caps": ["CAP_NET_RAW"]}},
 {"names": ["old"], "action": "SCMP_ACT_ALLOW", "includes": {"arches": ["arm"]}},
 {"names": ["older"], "action": "SCMP_ACT_ALLOW", "excludes": {"arches": ["amd64"]}}
]}`

var node = Node{Name: "node-1", Files: "/nodes/1", Config: "/config", Profile: []byte(smallProfile)}

// TestBundleOfMainContainer: the runtime's configuration has what the DaemonSet says.
func TestBundleOfMainContainer(t *testing.T) {
	pod := daemonSet(t)
	got, err := Bundle(pod, pod.Containers[0], node)
	if err != nil {
		t.Fatal(err)
	}
	caps := []string{"CAP_NET_ADMIN", "CAP_NET_RAW"}
	if diff := cmp.Diff(Process{
		Args:         []string{"/usr/bin/kube-ipvs-proxy", "--config=/var/lib/kube-proxy/config.conf", "--hostname-override=node-1"},
		Env:          []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "NODE_NAME=node-1"},
		Cwd:          "/",
		Capabilities: Capabilities{caps, caps, caps}, NoNewPrivileges: true, OOMScoreAdj: -997,
	}, got.Process); diff != "" {
		t.Errorf("process (-want +got):\n%s", diff)
	}
	if !got.Root.Readonly || got.Linux.Resources.Devices[0].Allow || got.Linux.Resources.Memory.Limit != 1<<30 {
		t.Errorf("root %v, resources %v", got.Root, got.Linux.Resources)
	}
	if !slices.Contains(got.Linux.ReadonlyPaths, "/proc/sys") || slices.Contains(got.Linux.Namespaces, Namespace{"network"}) {
		t.Errorf("read-only %v, namespaces %v", got.Linux.ReadonlyPaths, got.Linux.Namespaces)
	}
	bind := func(to, from, mode string) Mount {
		return Mount{to, "bind", from, []string{"rbind", "rprivate", mode}}
	}
	if diff := cmp.Diff([]Mount{
		bind("/var/lib/kube-proxy", "/config", "ro"),
		bind("/lib/modules", "/lib/modules", "ro"),
		bind("/run/kube-ipvs-proxy", "/nodes/1/run/kube-ipvs-proxy", "rw"),
		bind("/run/xtables.lock", "/nodes/1/run/xtables.lock", "rw"),
		bind("/host/proc/sys/net", "/proc/sys/net", "rw"),
	}, got.Mounts[len(system(false)):]); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
	var rules []string
	for _, s := range got.Linux.Seccomp.Syscalls {
		rules = append(rules, s.Names[0]+" "+s.Action)
	}
	if diff := cmp.Diff([]string{
		"read SCMP_ACT_ALLOW", "socket SCMP_ACT_ALLOW", "sethostname SCMP_ACT_ALLOW", "clone3 SCMP_ACT_ERRNO",
	}, rules); diff != "" {
		t.Errorf("system calls (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"SCMP_ARCH_X86_64", "SCMP_ARCH_X86"}, got.Linux.Seccomp.Architectures); diff != "" {
		t.Errorf("architectures (-want +got):\n%s", diff)
	}
}

func TestBundleOfInitContainer(t *testing.T) {
	pod := daemonSet(t)
	got, err := Bundle(pod, pod.InitContainers[0], node)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Process.Capabilities.Effective) != 41 || got.Linux.Seccomp != nil || len(got.Linux.ReadonlyPaths) > 0 || !got.Linux.Resources.Devices[0].Allow {
		t.Errorf("not privileged: %d capabilities, %+v", len(got.Process.Capabilities.Effective), got.Linux)
	}
	if got.Process.Args[1] != "--init-only" || !got.Root.Readonly {
		t.Errorf("arguments %q, root %v", got.Process.Args, got.Root)
	}
}

// TestBundleRefusesWhatItCannotMean: a setting that is not understood is no bundle.
func TestBundleRefusesWhatItCannotMean(t *testing.T) {
	for name, change := range map[string]func(*corev1.PodSpec){
		"no host network":     func(p *corev1.PodSpec) { p.HostNetwork = false },
		"host's processes":    func(p *corev1.PodSpec) { p.HostPID = true },
		"no security context": func(p *corev1.PodSpec) { p.Containers[0].SecurityContext = nil },
		"another variable":    func(p *corev1.PodSpec) { p.Containers[0].Env[0].ValueFrom.FieldRef.FieldPath = "status.hostIP" },
		"another volume":      func(p *corev1.PodSpec) { p.Volumes[1] = corev1.Volume{Name: p.Volumes[1].Name} },
		"no such volume":      func(p *corev1.PodSpec) { p.Volumes = p.Volumes[1:] },
	} {
		pod := daemonSet(t)
		change(&pod)
		if _, err := Bundle(pod, pod.Containers[0], node); err == nil {
			t.Errorf("%s: a bundle was made", name)
		}
	}
	pod := daemonSet(t)
	without := node
	without.Profile = []byte("{}")
	if _, err := Bundle(pod, pod.Containers[0], without); err == nil {
		t.Error("without a seccomp profile: a bundle was made")
	}
}

// TestCheckLibraries: what is missing is told, and so is a root without programs.
func TestCheckLibraries(t *testing.T) {
	root := t.TempDir()
	if err := CheckLibraries(root); err == nil {
		t.Error("an empty root passes")
	}
	// Some dynamic executable that every host of these tests has.
	text, err := os.ReadFile("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "sh"), text, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := CheckLibraries(root); err == nil {
		t.Error("a program without its libraries passes")
	}
	names, err := needed("/bin/sh")
	if err != nil || len(names) < 2 {
		t.Fatalf("/bin/sh needs %q, %v", names, err)
	}
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(root, filepath.Base(name)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := CheckLibraries(root); err != nil {
		t.Error(err)
	}
}
