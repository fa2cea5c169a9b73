//go:build kernel

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"sigs.k8s.io/yaml"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/report"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

func program(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(filepath.Join(os.Getenv("BIN"), name))
	if err != nil {
		t.Fatalf("%v (make build makes it)", err)
	}
	return path
}

// small are the arguments that keep a run short.
var small = []string{"--sizes=20x2", "--rounds=1", "--repeats=1", "--stream=1s", "--idle=1s", "--connects=10"}

// clean fails when something of the benchmark is left, and names the folder for
// temporary files that is looked into.
func clean(t *testing.T) (check func()) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	return func() {
		t.Helper()
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("left in the folder for temporary files: %v, %v", left, err)
		}
		mounts, err := os.ReadFile("/proc/self/mounts")
		if err != nil || strings.Contains(string(mounts), "kube-ipvs-bench") {
			t.Errorf("left mounts: %s, %v", mounts, err)
		}
		own, err := os.Readlink("/proc/self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		// Namespaces go a moment after their last thread.
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			left := strangers(t, own)
			if len(left) == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("processes in other network namespaces are left: %q", left)
				return
			}
		}
	}
}

// strangers lists the processes in other network namespaces than ours.
func strangers(t *testing.T, own string) []string {
	t.Helper()
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, p := range processes {
		threads, _ := filepath.Glob(p + "/task/*/ns/net")
		for _, thread := range threads {
			if ns, err := os.Readlink(thread); err == nil && ns != own {
				line, _ := os.ReadFile(p + "/cmdline")
				out = append(out, strings.ReplaceAll(string(line), "\x00", " "))
				break
			}
		}
	}
	return out
}

// TestJob runs the command of the Job's container at a small size, and finds every
// figure in its results.
func TestJob(t *testing.T) {
	check := clean(t)
	text, err := os.ReadFile("../../deploy/benchmark/job.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var job batchv1.Job
	if err := yaml.UnmarshalStrict(text, &job); err != nil {
		t.Fatal(err)
	}
	container := job.Spec.Template.Spec.Containers[0]
	results := t.TempDir()
	replaced := map[string]string{
		"--subjects": "ours,floor", "--ours": program(t, "kube-ipvs-proxy"), "--results": results, "--sizes": "20x2", "--rounds": "1",
	}
	args := slices.Clone(small[2:])
	for _, arg := range container.Args {
		name, value, _ := strings.Cut(arg, "=")
		if now, ok := replaced[name]; ok {
			value = now
			delete(replaced, name)
		}
		args = append(args, name+"="+value)
	}
	if len(replaced) > 0 {
		t.Errorf("the Job does not say %v", replaced)
	}
	out, err := exec.Command(program(t, filepath.Base(container.Command[0])), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
	r, err := report.Read(filepath.Join(results, "results.json"))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 2 || r.Runs[0].Size != (world.Size{Services: 20, Endpoints: 2}) {
		t.Fatalf("runs %+v", r.Runs)
	}
	// A machine's tests run in namespaces, in which the kernel does not tell of processes.
	untold := []string{report.ReplaceRun, report.IdleRun}
	for _, m := range report.Metrics {
		if len(r.Runs[0].Values[m.Key]) == 0 && !slices.Contains(untold, m.Key) {
			t.Errorf("no figure of %q", m.Title)
		}
	}
	if len(r.Runs[1].Values[report.ListsRight]) != 1 {
		t.Errorf("the floor has %v", r.Runs[1].Values)
	}
	for _, name := range []string{"table.txt", "chart.svg", "promises.md"} {
		if info, err := os.Stat(filepath.Join(results, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	check()
}

// TestBadProxies: one that dies and one that programs nothing are said, what comes
// after them is measured, and nothing of them is left.
func TestBadProxies(t *testing.T) {
	for _, test := range []struct{ name, script, want string }{
		{"dies", "#!/bin/sh\necho I cannot live >&2\nexit 7\n", "it ended by itself: exit status 7; its last words:\n  I cannot live"},
		{"no IPVS", "#!/bin/sh\ncase $1 in *version) exit 1;; esac\nsleep 600 &\nsleep 600\n", "never ready: it took more than 2s (--wait); the kernel has: 0 of 21 virtual servers"},
	} {
		t.Run(test.name, func(t *testing.T) {
			check := clean(t)
			dir := t.TempDir()
			bad := filepath.Join(dir, "proxy")
			if err := os.WriteFile(bad, []byte(test.script), 0o755); err != nil {
				t.Fatal(err)
			}
			o := options{
				sizes: []world.Size{{Services: 20, Endpoints: 2}}, subjects: []string{report.IPVS, report.Ours}, rounds: 1, repeats: 1,
				connects: 3, wait: 2 * time.Second, ours: program(t, "kube-ipvs-proxy"), kubeProxy: bad, output: "table",
			}
			var progress strings.Builder
			if test.name == "dies" {
				o.wait = 5 * time.Minute
			} else {
				o.subjects = o.subjects[:1]
			}
			r, err := o.run(t.Context(), &progress)
			if !errors.Is(err, errFailed) {
				t.Errorf("it ended with %v", err)
			}
			if !strings.Contains(r.Runs[0].Failure, test.want) {
				t.Errorf("it says %q, want %q", r.Runs[0].Failure, test.want)
			}
			if len(r.Runs) > 1 && r.Runs[1].Failure != "" {
				t.Errorf("the next one failed: %s", r.Runs[1].Failure)
			}
			check()
		})
	}
}

// TestInterrupt: Ctrl-C in the middle leaves no process, namespace, mount or file.
func TestInterrupt(t *testing.T) {
	check := clean(t)
	cmd := exec.Command(program(t, "kube-ipvs-bench"), append(slices.Clone(small), "--subjects=ours", "--stream=10m", "--ours="+program(t, "kube-ipvs-proxy"))...)
	var out strings.Builder
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = w.Close()
	// It is told when it changes things all the time.
	buffer := make([]byte, 4096)
	for !strings.Contains(out.String(), "added and removed") {
		n, err := r.Read(buffer)
		out.Write(buffer[:n])
		if err != nil {
			t.Fatalf("%v: %s", err, out.String())
		}
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	for {
		n, err := r.Read(buffer)
		out.Write(buffer[:n])
		if err != nil {
			break
		}
	}
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(out.String(), "nothing of it is left") {
		t.Errorf("exit code %d, %v:\n%s", code, err, out.String())
	}
	check()
}
