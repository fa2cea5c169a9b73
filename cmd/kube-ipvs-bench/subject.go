package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/report"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/sight"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// subject is a proxy that can be measured.
type subject struct {
	name    string
	program string // its name; empty for the plain tools
	// args are those of the program, given a folder with its kubeconfig, and its node.
	args func(dir, node string) ([]string, error)
	look func(context.Context) (sight.Sight, error)
}

const oursProgram = "kube-ipvs-proxy"

// subjects is all of them.
func subjects() []subject {
	return []subject{
		{report.Ours, oursProgram, oursArgs(), sight.IPVS},
		{report.OursRoute, oursProgram, oursArgs("--cluster-ip-binding", "route"), sight.IPVS},
		{report.IPTables, "kube-proxy", kubeProxyArgs("iptables"), sight.IPTables},
		{report.IPVS, "kube-proxy", kubeProxyArgs("ipvs"), sight.IPVS},
		{report.NFTables, "kube-proxy", kubeProxyArgs("nftables"), sight.NFTables},
		{report.Floor, "", nil, sight.IPVS},
	}
}

// find gives a subject by its name.
func find(name string) (subject, bool) {
	all := subjects()
	i := slices.IndexFunc(all, func(s subject) bool { return s.name == name })
	if i < 0 {
		return subject{}, false
	}
	return all[i], true
}

// checkSubjects refuses what is not there, and a floor without what it repeats.
func checkSubjects(names []string) error {
	for i, name := range names {
		if _, ok := find(name); !ok {
			var all []string
			for _, s := range subjects() {
				all = append(all, s.name)
			}
			return fmt.Errorf("--subjects: no %q: there are %s", name, strings.Join(all, ", "))
		}
		if name == report.Floor && !slices.Contains(names[:i], report.Ours) {
			return fmt.Errorf("--subjects: %s repeats what %s did: name %s before it", report.Floor, report.Ours, report.Ours)
		}
	}
	return nil
}

func kubeconfig(dir string) string { return filepath.Join(dir, "kubeconfig") }

func oursArgs(more ...string) func(dir, node string) ([]string, error) {
	return func(dir, node string) ([]string, error) {
		return append([]string{"run", "--kubeconfig", kubeconfig(dir), "--hostname-override", node,
			"--cluster-cidr", world.Pods.String()}, more...), nil
	}
}

// kubeProxyConfig lets changes come without a pause, in every mode; zero would mean a
// second.
const kubeProxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: %s}
hostnameOverride: %s
mode: %s
clusterCIDR: %s
conntrack: {maxPerCore: 0}
iptables: {minSyncPeriod: 1ms}
ipvs: {minSyncPeriod: 1ms}
nftables: {minSyncPeriod: 1ms}
`

func kubeProxyArgs(mode string) func(dir, node string) ([]string, error) {
	return func(dir, node string) ([]string, error) {
		file := filepath.Join(dir, "kube-proxy.yaml")
		text := fmt.Sprintf(kubeProxyConfig, kubeconfig(dir), node, mode, world.Pods)
		return []string{"--config", file}, os.WriteFile(file, []byte(text), 0o600)
	}
}

// programs are copies of the programs, in memory where the folder is, and what they
// say of their versions.
type programs struct {
	paths, versions map[string]string
}

// fetch copies the programs of the subjects into dir: where they are may be slow to
// read.
func (o *options) fetch(ctx context.Context, dir string) (programs, error) {
	p := programs{map[string]string{}, map[string]string{}}
	named := map[string]string{oursProgram: o.ours, "kube-proxy": o.kubeProxy}
	for _, name := range o.subjects {
		s, _ := find(name)
		if s.program == "" || p.paths[s.program] != "" {
			continue
		}
		from, err := locate(s.program, named[s.program])
		if err != nil {
			return p, fmt.Errorf("subject %s: %w", name, err)
		}
		to := filepath.Join(dir, s.program)
		if err := copyFile(from, to); err != nil {
			return p, err
		}
		p.paths[s.program] = to
		p.versions[s.program] = version(ctx, to)
	}
	return p, nil
}

// version is what a program says of itself, empty when it says nothing in time.
func version(ctx context.Context, program string) string {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, ask := range []string{"--version", "version"} {
		cmd := exec.CommandContext(ctx, program, ask)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with its children
		cmd.WaitDelay = time.Second
		if out, err := cmd.Output(); err == nil {
			line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
			return line
		}
	}
	return ""
}

// locate finds a program: where it was said to be, beside this one, or in PATH.
func locate(name, path string) (string, error) {
	if path != "" {
		return exec.LookPath(path)
	}
	if self, err := os.Executable(); err == nil {
		if found, err := exec.LookPath(filepath.Join(filepath.Dir(self), name)); err == nil {
			return found, nil
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w; name it with --ours or --kube-proxy", err)
	}
	return found, nil
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	if _, err = io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, 512<<10)); err != nil {
		_ = dst.Close()
		return err
	}
	return dst.Close()
}
