//go:build kernel

package readme

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// manifests are those of the demo, which the README speaks about.
const manifests = root + "/deploy/manifests"

// startLab brings up the lab with the sample manifests, their servers, and an agent on
// node-1.
func startLab(t *testing.T) *testbed.Lab {
	t.Helper()
	lab, err := testbed.New()
	if err != nil {
		t.Fatal(err)
	}
	lab.SettleLimit = testbed.StartLimit // agents start in it
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	files, err := filepath.Glob(manifests + "/echo*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		apply(t, lab, file, strings.TrimSuffix(filepath.Base(file), ".yaml"))
	}
	for _, pod := range []string{testbed.PodL1, testbed.PodRm, testbed.PodR3} {
		serve(t, lab.Host(pod))
	}
	startAgent(t, lab)
	return lab
}

func startAgent(t *testing.T, lab *testbed.Lab) {
	t.Helper()
	if err := lab.Proxy(testbed.Node1).Start(); err != nil {
		t.Fatal(err)
	}
	settle(t, lab)
}

func serve(t *testing.T, pod *testbed.Host) {
	t.Helper()
	for _, family := range testbed.Families() {
		for _, protocol := range []probe.Protocol{probe.TCP, probe.UDP} {
			server, err := pod.Serve(protocol, netipPort(pod, family))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Close() })
		}
	}
}

// apply writes a file of manifests into the lab's folder.
func apply(t *testing.T, lab *testbed.Lab, file, name string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := lab.Manifests.ApplyText(name, string(text)); err != nil {
		t.Fatal(err)
	}
}

// TestReadmeInTheLab does what the comments above the documents' transcripts say, runs
// their commands and compares what they print. What was printed is left in the results,
// so that the documents can be mended from it.
func TestReadmeInTheLab(t *testing.T) {
	var scenes []Scene
	for _, name := range []string{"README.md", "deploy/troubleshooting.md"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		of := Scenes(name, string(text))
		if len(of) < 3 {
			t.Fatalf("%s has %d transcripts", name, len(of))
		}
		scenes = append(scenes, of...)
	}
	lab := startLab(t)
	var printed bytes.Buffer
	for _, scene := range scenes {
		t.Run(scene.Where, func(t *testing.T) {
			prepare(t, lab, scene.Before)
			fmt.Fprintf(&printed, "%s %s\n", labMark, strings.Join(scene.Before, "; "))
			for _, step := range scene.Steps {
				out := command(t, lab, step.Command)
				fmt.Fprintf(&printed, "$ %s\n%s\n", step.Command, out)
				if shown, have := plain(step.Output), plain(strings.Split(out, "\n")); !Matches(shown, have) {
					t.Errorf("%s: %s prints\n%s\nthe document shows\n%s", scene.Where, step.Command, out, strings.Join(step.Output, "\n"))
				}
			}
			prepare(t, lab, scene.After)
		})
	}
	if dir := testbed.ResultsDir; isFolder(dir) {
		if err := os.WriteFile(filepath.Join(dir, "readme.txt"), printed.Bytes(), 0o644); err != nil {
			t.Error(err)
		}
	}
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// Times, counts and marks differ from run to run.
var (
	duration = regexp.MustCompile(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(s|ms)\b`)
	mark     = regexp.MustCompile(`\bfwm \d+`)
	count    = regexp.MustCompile(`^(  counted|  seen|ok       the conntrack table holds).*`)
)

// plain leaves out what differs, and empty lines at the end.
func plain(lines []string) []string {
	text := strings.TrimRight(strings.Join(lines, "\n"), "\n")
	var list []string
	for line := range strings.SplitSeq(text, "\n") {
		if count.MatchString(line) {
			line = count.ReplaceAllString(line, "$1")
		}
		line = mark.ReplaceAllString(strings.TrimRight(line, " "), "fwm N")
		list = append(list, duration.ReplaceAllString(line, "TIME"))
	}
	return list
}

// prepare does lines of a comment: "apply FILE NAME" and "remove NAME" change the manifests,
// "hold POD ADDRESS" and "call POD ADDRESS" send a request, "stop" and "start" are about
// the agent, which would mend damage before it is looked at; others run on node-1.
func prepare(t *testing.T, lab *testbed.Lab, lines []string) {
	t.Helper()
	for _, line := range lines {
		words := strings.Fields(line)
		switch words[0] {
		case "apply":
			apply(t, lab, filepath.Join("testdata", words[1]), words[2])
			settle(t, lab)
		case "remove":
			if err := lab.Manifests.Remove(words[1]); err != nil {
				t.Fatal(err)
			}
			settle(t, lab)
		case "stop":
			if err := lab.Proxy(testbed.Node1).Stop(t.Context()); err != nil {
				t.Fatal(err)
			}
		case "start":
			startAgent(t, lab)
		case "call":
			lab.Host(words[1]).Probe.Do(probe.Call{Protocol: probe.TCP, To: parsePort(t, words[2])})
		case "hold":
			stream, err := lab.Host(words[1]).Hold(probe.Call{Protocol: probe.TCP, To: parsePort(t, words[2])})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = stream.Reset() })
		default:
			if out, err := lab.Host(testbed.Node1).Exec(t.Context(), words[0], words[1:]...); err != nil {
				t.Fatal(line, out, err)
			}
		}
	}
}

func settle(t *testing.T, lab *testbed.Lab) {
	t.Helper()
	if err := lab.Settle(t.Context(), testbed.Node1); err != nil {
		t.Fatal(err)
	}
}

// command runs a line of a document on node-1 and returns what it prints, errors last.
// Without an agent to ask it gets the flags of one.
func command(t *testing.T, lab *testbed.Lab, line string) string {
	t.Helper()
	words := strings.Fields(line)
	if words[0] != "kube-ipvs-proxy" {
		t.Fatalf("%q is no command of this program", line)
	}
	args := words[1:]
	if !lab.Proxy(testbed.Node1).Running() {
		args = append(args, "--manifests", lab.Manifests.Dir(), "--hostname-override", testbed.Node1, "--cluster-cidr", testbed.ClusterCIDR)
	}
	program, err := lab.Product()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.Background(), program, args...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := lab.Host(testbed.Node1).Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return out.String() + errOut.String()
}

func netipPort(pod *testbed.Host, family testbed.Family) netip.AddrPort {
	return netip.AddrPortFrom(pod.Addr(family), 8080)
}

func parsePort(t *testing.T, text string) netip.AddrPort {
	t.Helper()
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}
