//go:build peers

package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"kube-ipvs-proxy/e2e/cluster"
)

// These tests run the real API server and operators' tools: a build that fails fails
// them.

// crds is the module whose release has the definition of PodMonitor.
const crds = "github.com/prometheus-operator/prometheus-operator@v0.85.0"

// server is an API server with the administrator's kubectl.
type server struct {
	*cluster.Cluster
	kubectl, config string
}

func startServer(t *testing.T) *server {
	t.Helper()
	kubectl, err := cluster.Peers(t.Context(), "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	c := cluster.Begin(t)
	return &server{c, kubectl[0], c.KubeconfigFile(t)}
}

// run runs kubectl and returns what it printed; an error has what it complained of.
func (s *server) run(stdin string, args ...string) (string, error) {
	cmd := exec.Command(s.kubectl, append([]string{"--kubeconfig", s.config}, args...)...)
	cmd.Stdin = strings.NewReader(stdin)
	return output(cmd)
}

// must is run for what must succeed.
func (s *server) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.run("", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func output(cmd *exec.Cmd) (string, error) {
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args, " "), err, stderr.String())
	}
	if complaint := strings.TrimSpace(stderr.String()); complaint != "" {
		return string(out), fmt.Errorf("%s: %s", strings.Join(cmd.Args, " "), complaint)
	}
	return string(out), nil
}

// render runs the tool of the module render.
func render(t *testing.T, args ...string) (string, error) {
	t.Helper()
	cmd := exec.Command("go", append([]string{"run", "."}, args...)...)
	cmd.Dir = "render"
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	return output(cmd)
}

// folder is a path in the folder deploy that holds from everywhere.
func folder(t *testing.T, path ...string) string {
	t.Helper()
	abs, err := filepath.Abs(filepath.Join(append([]string{Dir}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return abs
}

// withPodMonitor is a kustomization of the base with the component.
func withPodMonitor(t *testing.T) string {
	t.Helper()
	// Kustomizations name folders relative to themselves.
	dir := t.TempDir()
	up, err := filepath.Rel(dir, folder(t))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("resources: [%s/base]\ncomponents: [%s/components/podmonitor]\n", up, up)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

// applyCRD makes PodMonitor known and waits until it is served.
func (s *server) applyCRD(t *testing.T) {
	t.Helper()
	out, err := output(exec.Command("go", "mod", "download", "-json", crds))
	if err != nil {
		t.Fatal(err)
	}
	var module struct{ Dir string }
	if err := json.Unmarshal([]byte(out), &module); err != nil {
		t.Fatal(err)
	}
	s.must(t, "apply", "--server-side", "-f",
		filepath.Join(module.Dir, "example", "prometheus-operator-crd", "monitoring.coreos.com_podmonitors.yaml"))
	s.must(t, "wait", "--for=condition=Established", "--timeout=60s", "crd/podmonitors.monitoring.coreos.com")
}

// TestAPIServerTakesEverything applies the base, each overlay and the component, first
// as a dry run, then for good, so that objects that depend on others are seen as well.
func TestAPIServerTakesEverything(t *testing.T) {
	s := startServer(t)
	monitored := withPodMonitor(t)
	if out, err := s.run("", "apply", "--server-side", "--dry-run=server", "-k", monitored); err == nil {
		t.Errorf("PodMonitor without its definition was taken:\n%s", out)
	}
	s.applyCRD(t)
	for _, c := range []struct {
		dir     string
		objects int
	}{
		{folder(t, "base"), 6},
		{folder(t, "overlays", "replace-kube-proxy"), 5},
		{folder(t, "overlays", "restore-kube-proxy"), 1},
		{folder(t, "overlays", "restore-kube-proxy-ipvs"), 1},
		{monitored, 7},
		{folder(t, "benchmark"), 1},
	} {
		for _, how := range [][]string{{"--dry-run=server"}, nil} {
			args := append([]string{"apply", "--server-side", "--validate=strict"}, how...)
			out := s.must(t, append(args, "-k", c.dir)...)
			if n := strings.Count(out, "serverside-applied"); n != c.objects {
				t.Errorf("%s %v: %d objects, want %d:\n%s", c.dir, how, n, c.objects, out)
			}
		}
	}
	// What was taken is what is in the file, with all fields of the Pod.
	ds, err := s.Client().AppsV1().DaemonSets("kube-system").Get(context.Background(), "kube-ipvs-proxy", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := ds.Spec.Template.Spec.PriorityClassName; got != "system-node-critical" {
		t.Errorf("priority class %q", got)
	}
}

// TestAPIServerKeepsTheBenchmark: kube-proxy's image as a volume, and all that the Pod
// may do, are still there once the server has taken the Job.
func TestAPIServerKeepsTheBenchmark(t *testing.T) {
	s := startServer(t)
	out := s.must(t, "apply", "--server-side", "--validate=strict", "--dry-run=server", "-o", "json", "-k", folder(t, "benchmark"))
	var job batchv1.Job
	if err := json.Unmarshal([]byte(out), &job); err != nil {
		t.Fatal(err)
	}
	pod := job.Spec.Template.Spec
	volume := pod.Volumes[0].Image
	if volume == nil || volume.Reference != "registry.k8s.io/kube-proxy:v1.37.2" {
		t.Errorf("kube-proxy's volume is %+v", pod.Volumes[0])
	}
	if c := pod.Containers[0].SecurityContext; c == nil || c.Privileged == nil || !*c.Privileged || !pod.HostPID || !pod.HostNetwork {
		t.Errorf("the Pod is %+v", pod)
	}
}

// TestAPIServerRefuses shows that a dry run on this server can fail.
func TestAPIServerRefuses(t *testing.T) {
	s := startServer(t)
	text := s.must(t, "kustomize", folder(t, "base"))
	for old, bad := range map[string]string{
		"privileged: false":        "privileged: perhaps",
		"allowPrivilegeEscalation": "allowPrivilegedEscalation",
		"clusterIP: None":          "clusterIP: Nowhere",
		"containerPort: 10249":     "containerPort: 102490",
	} {
		changed := strings.Replace(text, old, bad, 1)
		if changed == text {
			t.Fatalf("no %q in the base", old)
		}
		if out, err := s.run(changed, "apply", "--server-side", "--validate=strict", "--dry-run=server", "-f", "-"); err == nil {
			t.Errorf("%q was taken:\n%s", bad, out)
		}
	}
}
