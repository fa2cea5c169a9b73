// Package deploy tests the files of the folder deploy: that the API server takes them,
// that they give what is needed and no more, and that the image's container works under
// the security settings that they ask for. It makes an OCI bundle of a container of a
// Pod as a kubelet and its runtime would.
package deploy

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Node is where the Pod runs.
type Node struct {
	Name string
	// Files is the folder that stands for the node's own /run, in which hostPaths of
	// several nodes of one machine would meet.
	Files string
	// Config is the folder with the files of the Pod's ConfigMap.
	Config string
	// Profile is the seccomp profile for RuntimeDefault.
	Profile []byte
}

// Entrypoint is the image's program, and imagePath its environment.
const (
	Entrypoint = "/usr/bin/kube-ipvs-proxy"
	imagePath  = "PATH=/usr/sbin:/usr/bin:/sbin:/bin"
)

// criticalOOMScoreAdj is what the kubelet gives Pods of the class system-node-critical.
const criticalOOMScoreAdj = -997

// runtimeCaps are the capabilities of a container for which nothing is said.
var runtimeCaps = []string{
	"CAP_AUDIT_WRITE", "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_MKNOD",
	"CAP_NET_BIND_SERVICE", "CAP_NET_RAW", "CAP_SETFCAP", "CAP_SETGID", "CAP_SETPCAP", "CAP_SETUID", "CAP_SYS_CHROOT",
}

// allCaps are those of a privileged container, of Linux 6.1.
var allCaps = append([]string{
	"CAP_AUDIT_CONTROL", "CAP_AUDIT_READ", "CAP_BLOCK_SUSPEND", "CAP_BPF", "CAP_CHECKPOINT_RESTORE",
	"CAP_DAC_READ_SEARCH", "CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_LEASE", "CAP_LINUX_IMMUTABLE", "CAP_MAC_ADMIN",
	"CAP_MAC_OVERRIDE", "CAP_NET_ADMIN", "CAP_NET_BROADCAST", "CAP_PERFMON", "CAP_SYSLOG", "CAP_SYS_ADMIN",
	"CAP_SYS_BOOT", "CAP_SYS_MODULE", "CAP_SYS_NICE", "CAP_SYS_PACCT", "CAP_SYS_PTRACE", "CAP_SYS_RAWIO",
	"CAP_SYS_RESOURCE", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_WAKE_ALARM",
}, runtimeCaps...)

// Bundle is the configuration of a container of a Pod on a node; the root file system
// is the folder "root" or what the caller makes of it. An error says what of the
// container's settings is not understood here.
func Bundle(pod corev1.PodSpec, c corev1.Container, n Node) (Spec, error) {
	sc := c.SecurityContext
	if !pod.HostNetwork || pod.HostPID || pod.HostIPC || sc == nil || pod.SecurityContext != nil {
		return Spec{}, errors.New("want hostNetwork alone, and the security context at the container")
	}
	privileged := sc.Privileged != nil && *sc.Privileged
	caps := capabilities(sc.Capabilities, privileged)
	mounts, err := volumes(pod, c, n)
	if err != nil {
		return Spec{}, err
	}
	env, err := environment(c, n)
	if err != nil {
		return Spec{}, err
	}
	spec := Spec{
		OCIVersion: "1.0.2",
		Process: Process{
			Args: append([]string{Entrypoint}, expand(c.Args, env)...),
			Env:  []string{imagePath},
			Cwd:  "/", Capabilities: Capabilities{caps, caps, caps},
			NoNewPrivileges: sc.AllowPrivilegeEscalation != nil && !*sc.AllowPrivilegeEscalation,
			OOMScoreAdj:     criticalOOMScoreAdj,
		},
		Root:   Root{Path: "root", Readonly: sc.ReadOnlyRootFilesystem != nil && *sc.ReadOnlyRootFilesystem},
		Mounts: append(system(privileged), mounts...),
		Linux: Linux{
			// The network is the node's, and so is its name.
			Namespaces: []Namespace{{"pid"}, {"ipc"}, {"mount"}, {"cgroup"}},
			Resources:  Resources{Devices: []Device{{Allow: privileged, Access: "rwm"}}},
		},
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		spec.Process.Env = append(spec.Process.Env, name+"="+env[name])
	}
	if u := sc.RunAsUser; u != nil {
		spec.Process.User = User{UID: *u}
	}
	if limit, ok := c.Resources.Limits[corev1.ResourceMemory]; ok {
		spec.Linux.Resources.Memory = &Memory{Limit: limit.Value()}
	}
	if privileged {
		return spec, nil
	}
	spec.Linux.MaskedPaths, spec.Linux.ReadonlyPaths = maskedPaths, readonlyPaths
	if sc.SeccompProfile != nil && sc.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault {
		spec.Linux.Seccomp, err = runtimeDefault(n.Profile, caps)
	}
	return spec, err
}

// capabilities are what is left of the runtime's after drop, and what is added.
func capabilities(c *corev1.Capabilities, privileged bool) []string {
	if privileged {
		return allCaps
	}
	caps := slices.Clone(runtimeCaps)
	if c == nil {
		return caps
	}
	for _, name := range c.Drop {
		caps = slices.DeleteFunc(caps, func(have string) bool { return name == "ALL" || have == "CAP_"+string(name) })
	}
	for _, name := range c.Add {
		caps = append(caps, "CAP_"+string(name))
	}
	slices.Sort(caps)
	return slices.Compact(caps)
}

// environment is what the container's variables are on the node.
func environment(c corev1.Container, n Node) (map[string]string, error) {
	env := map[string]string{}
	for _, v := range c.Env {
		from := v.ValueFrom
		switch {
		case from == nil:
			env[v.Name] = v.Value
		case from.FieldRef != nil && from.FieldRef.FieldPath == "spec.nodeName":
			env[v.Name] = n.Name
		default:
			return nil, fmt.Errorf("variable %s: not understood", v.Name)
		}
	}
	return env, nil
}

// expand puts variables into arguments: $(NAME).
func expand(args []string, env map[string]string) []string {
	args = slices.Clone(args)
	for i := range args {
		for name, value := range env {
			args[i] = strings.ReplaceAll(args[i], "$("+name+")", value)
		}
	}
	return args
}

// volumes are the container's mounts of the Pod's volumes.
func volumes(pod corev1.PodSpec, c corev1.Container, n Node) ([]Mount, error) {
	var mounts []Mount
	for _, m := range c.VolumeMounts {
		i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 || m.SubPath != "" || m.MountPropagation != nil {
			return nil, fmt.Errorf("mount %s: not understood", m.Name)
		}
		source, readonly, err := n.source(pod.Volumes[i])
		if err != nil {
			return nil, err
		}
		option := "rw"
		if m.ReadOnly || readonly {
			option = "ro"
		}
		mounts = append(mounts, Mount{m.MountPath, "bind", source, []string{"rbind", "rprivate", option}})
	}
	return mounts, nil
}

// source is the folder or file of a volume on the node.
func (n Node) source(v corev1.Volume) (path string, readonly bool, err error) {
	switch {
	case v.ConfigMap != nil:
		return n.Config, true, nil
	case v.HostPath != nil && strings.HasPrefix(v.HostPath.Path, "/run/"):
		return filepath.Join(n.Files, v.HostPath.Path), false, nil
	case v.HostPath != nil:
		return v.HostPath.Path, false, nil
	}
	return "", false, fmt.Errorf("volume %s: not understood", v.Name)
}
