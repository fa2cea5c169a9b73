//go:build kernel

package speed

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

const (
	services  = 1000
	endpoints = 4
	// slower is how much longer than the plain tools a start may take.
	slower = 1.5
)

func TestStartAgainstPlainTools(t *testing.T) {
	folder := writeManifests(t, services)
	first := once(t, folder)
	ours := tookOf(t, first, "round")
	state := export(t)
	tools := state.restore(t)
	t.Logf("%d Services x %d endpoints: read in %v, then %v to the kernel; plain tools %v (%s): ratio %.2f",
		services, endpoints, tookOf(t, first, "source"), ours, tools.sum(), tools, float64(ours)/float64(tools.sum()))
	if float64(ours) > slower*float64(tools.sum()) {
		t.Errorf("a start takes %v, more than %v times the %v of the plain tools", ours, slower, tools.sum())
	}
	if second := once(t, folder); !strings.Contains(second, "(0 operations)") {
		t.Errorf("a second run wrote: %s", second)
	}
}

// once runs the proxy until the kernel equals the plan and returns what it printed.
func once(t *testing.T, folder string) string {
	t.Helper()
	out, err := exec.Command(filepath.Join(os.Getenv("BIN"), "kube-ipvs-proxy"), "run", "--once",
		"--manifests", folder, "--hostname-override", "node-1", "--cluster-cidr", "10.244.0.0/16").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

var took = regexp.MustCompile(`took=(\S+)`)

// tookOf is the time that the first line with the message says.
func tookOf(t *testing.T, log, message string) time.Duration {
	t.Helper()
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "msg="+message) && !strings.Contains(line, `msg="`+message) {
			continue
		}
		if m := took.FindStringSubmatch(line); m != nil {
			d, err := time.ParseDuration(m[1])
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatalf("no line %q with a time in: %s", message, log)
	return 0
}

// writeManifests writes one file for each Service.
func writeManifests(t *testing.T, n int) string {
	t.Helper()
	folder := t.TempDir()
	for i := range n {
		file := filepath.Join(folder, fmt.Sprintf("service-%05d.yaml", i))
		if err := os.WriteFile(file, []byte(manifest(i)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func manifest(i int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: v1
kind: Service
metadata:
  name: service-%d
  namespace: default
spec:
  clusterIP: 10.96.%d.%d
  ports:
  - name: http
    protocol: TCP
    port: 80
    targetPort: 8080
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: service-%d-a
  namespace: default
  labels:
    kubernetes.io/service-name: service-%d
addressType: IPv4
ports:
- name: http
  protocol: TCP
  port: 8080
endpoints:
`, i, i/250+1, i%250+1, i, i)
	for e := range endpoints {
		fmt.Fprintf(&b, "- addresses:\n  - 10.244.%d.%d\n  nodeName: node-%d\n", (i*endpoints+e)/250, (i*endpoints+e)%250+1, e+1)
	}
	return b.String()
}

// saved is the state in the languages of the three tools.
type saved struct{ ipvs, addresses, sets string }

// export saves what the kernel has now.
func export(t *testing.T) saved {
	t.Helper()
	s := saved{ipvs: output(t, "ipvsadm", "-Sn"), sets: output(t, "ipset", "save")}
	for line := range strings.Lines(output(t, "ip", "-o", "-4", "address", "show", "dev", "kube-ipvs0")) {
		s.addresses += "address add " + strings.Fields(line)[3] + " dev kube-ipvs0\n"
	}
	return s
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if err != nil {
		t.Fatalf("%s %v: %v", name, args, err)
	}
	return string(out)
}

// times are those of the tools, in the order in which they ran.
type times [3]time.Duration

func (t times) sum() time.Duration { return t[0] + t[1] + t[2] }

func (t times) String() string {
	return fmt.Sprintf("ipset restore %v, ipvsadm -R %v, ip -batch %v",
		t[0].Round(time.Millisecond), t[1].Round(time.Millisecond), t[2].Round(time.Millisecond))
}

// restore puts the state into a fresh network namespace.
func (s saved) restore(t *testing.T) times {
	t.Helper()
	var taken times
	failed := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with its namespace
		failed <- s.restoreHere(&taken)
	}()
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
	return taken
}

// restoreHere gives the calling thread a network namespace of its own, which the
// programs that it starts share.
func (s saved) restoreHere(taken *times) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return err
	}
	for _, step := range []struct {
		stdin string
		took  *time.Duration
		args  []string
	}{
		{"", nil, []string{"ip", "link", "set", "lo", "up"}},
		{"", nil, []string{"ip", "link", "add", "kube-ipvs0", "type", "dummy"}},
		{s.sets, &taken[0], []string{"ipset", "restore"}},
		{s.ipvs, &taken[1], []string{"ipvsadm", "-R"}},
		{s.addresses, &taken[2], []string{"ip", "-batch", "-"}},
	} {
		cmd := exec.Command(step.args[0], step.args[1:]...)
		cmd.Stdin = strings.NewReader(step.stdin)
		began := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w: %s", step.args, err, out)
		}
		if step.took != nil {
			*step.took = time.Since(began)
		}
	}
	return nil
}
