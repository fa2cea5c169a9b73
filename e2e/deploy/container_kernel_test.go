//go:build kernel

package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
)

// container is the DaemonSet's Pod on one node of the lab: its containers are run by
// runc from the image's root file system. What differs from a cluster is said here:
// the objects come from the lab's folder of manifests, which is one more mount and one
// more argument of the main container.
type container struct {
	host      *testbed.Host
	dir       string // of this node's bundles
	root      string // the image's files
	manifests string
	node      Node
	withhold  string   // a mount of the main container that it does not get; empty: none
	args      []string // of the main container, besides
	log       *testbed.Log
	process   *testbed.Process // nil when it was never started or was ended by us
	inited    bool             // a Pod's init container runs once
	runs      int
}

// newContainer prepares the node's side of the Pod's volumes.
func newContainer(h *testbed.Host, dir, root, manifests string) (*container, error) {
	dir = filepath.Join(dir, h.Name())
	c := &container{host: h, dir: dir, root: root, manifests: manifests, log: &testbed.Log{},
		node: Node{Name: h.Name(), Files: filepath.Join(dir, "files"), Config: filepath.Join(dir, "config")}}
	var err error
	if c.node.Profile, err = os.ReadFile(filepath.Join(imageDir(), ProfileFile)); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(Dir, "base", "config.conf"))
	if err != nil {
		return nil, err
	}
	// What the README has the operator fill in.
	const empty = `clusterCIDR: ""`
	if !strings.Contains(string(text), empty) {
		return nil, fmt.Errorf("no %s in config.conf", empty)
	}
	text = []byte(strings.Replace(string(text), empty, "clusterCIDR: "+testbed.ClusterCIDR, 1))
	return c, errors.Join(
		os.MkdirAll(filepath.Join(c.node.Files, "run", "kube-ipvs-proxy"), 0o755),
		os.WriteFile(filepath.Join(c.node.Files, "run", "xtables.lock"), nil, 0o600),
		os.MkdirAll(c.node.Config, 0o755),
		os.WriteFile(filepath.Join(c.node.Config, "config.conf"), text, 0o644),
	)
}

// Start runs the init container to its end the first time, then the main container.
func (c *container) Start(args ...string) error {
	if c.process != nil {
		return fmt.Errorf("%v is already running", c.process)
	}
	ds, err := ReadDaemonSet()
	if err != nil {
		return err
	}
	pod := ds.Spec.Template.Spec
	if !c.inited {
		spec, err := Bundle(pod, pod.InitContainers[0], c.node)
		if err != nil {
			return err
		}
		if _, err := c.toEnd("init", spec); err != nil {
			return err
		}
		c.inited = true
	}
	spec, err := Bundle(pod, pod.Containers[0], c.node)
	if err != nil {
		return err
	}
	var mounts []Mount
	for _, m := range spec.Mounts {
		if m.Destination != c.withhold {
			mounts = append(mounts, m)
		}
	}
	spec.Mounts = append(mounts, Mount{"/manifests", "bind", c.manifests, []string{"rbind", "rprivate", "ro"}})
	spec.Process.Args = append(spec.Process.Args, append([]string{"--manifests=/manifests"}, append(c.args, args...)...)...)
	c.runs++
	if _, err := fmt.Fprintf(c.log, "==== start %s %s\n", c.id(), strings.Join(spec.Process.Args, " ")); err != nil {
		return err
	}
	c.process, err = c.run(c.log, c.id(), spec)
	return err
}

// id is the present main container's.
func (c *container) id() string { return fmt.Sprintf("main-%s-%d", c.node.Name, c.runs) }

// initLimit is for modprobe and a privileged start in an emulated machine.
const initLimit = 2 * time.Minute

// toEnd runs a container until it has ended well, and returns what it said.
func (c *container) toEnd(what string, spec Spec) (string, error) {
	log := &testbed.Log{}
	p, err := c.run(log, what+"-"+c.node.Name, spec)
	if err != nil {
		return "", err
	}
	select {
	case <-p.Exited():
	case <-time.After(initLimit):
		return "", fmt.Errorf("%v has not ended", p)
	}
	// Stop of a process that has ended is an error that has how it ended.
	ended := p.Stop(context.Background())
	if !strings.Contains(ended.Error(), "exit status 0") {
		return "", fmt.Errorf("container %s: %w", what, ended)
	}
	said := strings.Join(log.Last(50, nil), "\n")
	_, err = fmt.Fprintf(c.log, "==== container %s\n%s\n", what, said)
	return said, err
}

// runcState is where runc keeps what it knows.
const runcState = "/run/runc"

// run starts a container in the node's network.
func (c *container) run(log *testbed.Log, id string, spec Spec) (*testbed.Process, error) {
	bundle := filepath.Join(c.dir, id)
	spec.Root.Path = c.root
	text, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return nil, err
	}
	if err := errors.Join(
		os.MkdirAll(bundle, 0o755),
		os.WriteFile(filepath.Join(bundle, "config.json"), text, 0o644),
	); err != nil {
		return nil, err
	}
	return c.host.StartProcess(log, "runc", "--root", runcState, "run", "--bundle", bundle, id)
}

// Stop ends the main container as a kubelet does; runc passes SIGTERM on.
func (c *container) Stop(ctx context.Context) error {
	if c.process == nil {
		return errors.New("not running")
	}
	process := c.process
	c.process = nil
	return process.Stop(ctx)
}

// Kill kills the main container; runc then ends by itself.
func (c *container) Kill(ctx context.Context) error {
	if c.process == nil {
		return errors.New("not running")
	}
	process := c.process
	c.process = nil
	if _, err := c.host.Exec(ctx, "runc", "--root", runcState, "kill", c.id(), "KILL"); err != nil {
		return err
	}
	select {
	case <-process.Exited():
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%v is still there: %w", process, context.Cause(ctx))
	}
}

// Running is true from Start until Stop or Kill.
func (c *container) Running() bool { return c.process != nil }

// Log is what the containers wrote.
func (c *container) Log() *testbed.Log { return c.log }

// Settle waits for the line that names the revision.
func (c *container) Settle(ctx context.Context, revision string) error {
	want := "revision=" + revision
	for {
		last := c.log.Last(1, func(l string) bool {
			return strings.Contains(l, "msg=settled ") || strings.HasPrefix(l, "==== start")
		})
		if len(last) == 1 && strings.Contains(strings.ReplaceAll(last[0], `"`, "")+" ", want+" ") {
			return nil
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-c.process.Exited():
			return fmt.Errorf("%v ended:\n%s", c.process, strings.Join(c.log.Last(30, nil), "\n"))
		case <-ctx.Done():
			return fmt.Errorf("%v has not settled: %w:\n%s", c.process, context.Cause(ctx), strings.Join(c.log.Last(30, nil), "\n"))
		}
	}
}

// exec runs the image's program in the main container, as "kubectl exec" does.
func (c *container) exec(ctx context.Context, args ...string) (string, error) {
	return c.host.Exec(ctx, "runc", append([]string{"--root", runcState, "exec", c.id(), Entrypoint}, args...)...)
}

// pid is the main container's first process, as the machine sees it.
func (c *container) pid(ctx context.Context) (int, error) {
	text, err := c.host.Exec(ctx, "runc", "--root", runcState, "state", c.id())
	if err != nil {
		return 0, err
	}
	var state struct{ Pid int }
	return state.Pid, json.Unmarshal([]byte(text), &state)
}
