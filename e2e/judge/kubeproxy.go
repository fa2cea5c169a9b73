package judge

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
)

// kubeProxy is the real kube-proxy on one node.
type kubeProxy struct {
	host       *testbed.Host
	program    string
	mode       string
	kubeconfig string
	mirror     *mirror
	log        *testbed.Log
	process    *testbed.Process // nil when it was never started or was ended by us
}

// args are the arguments that every node has, before those of a test.
func (p *kubeProxy) args(more []string) []string {
	args := []string{
		"--kubeconfig", p.kubeconfig,
		"--master", "https://" + relayAddr,
		"--hostname-override", p.host.Name(),
		"--proxy-mode", p.mode,
		"--conntrack-max-per-core", "0", // a network namespace can't set it
		"-v", "2",
	}
	// It refuses an empty value: not to name it says the same.
	if i := slices.Index(more, "--cluster-cidr"); i < 0 {
		args = append(args, "--cluster-cidr", testbed.ClusterCIDR)
	} else if i+1 < len(more) && more[i+1] == "" {
		more = slices.Delete(slices.Clone(more), i, i+2)
	}
	switch p.mode {
	case "iptables":
		args = append(args, "--iptables-min-sync-period", "0s") // else changes a second apart
	case "nftables":
		// Its default is one address of the node; a list of flags adds up.
		if !slices.Contains(more, "--nodeport-addresses") {
			args = append(args, "--nodeport-addresses", "all")
		}
	}
	return append(args, more...)
}

// Start runs it with the arguments that every node has, then args.
func (p *kubeProxy) Start(args ...string) error {
	if p.process != nil {
		return fmt.Errorf("%v is already running", p.process)
	}
	all := p.args(args)
	if _, err := fmt.Fprintf(p.log, "==== start %s\n", strings.Join(all, " ")); err != nil {
		return err
	}
	var err error
	p.process, err = p.host.StartProcess(p.log, p.program, all...)
	return err
}

// Stop sends SIGTERM, of which kube-proxy simply dies.
func (p *kubeProxy) Stop(ctx context.Context) error {
	return p.end(ctx, func(process *testbed.Process, ctx context.Context) error {
		if err := syscall.Kill(process.PID(), syscall.SIGTERM); err != nil {
			return fmt.Errorf("%v: SIGTERM: %w", process, err)
		}
		select {
		case <-process.Exited():
			return nil
		case <-ctx.Done():
			return fmt.Errorf("%v is still there after SIGTERM: %w", process, context.Cause(ctx))
		}
	})
}

// Kill sends SIGKILL.
func (p *kubeProxy) Kill(ctx context.Context) error { return p.end(ctx, (*testbed.Process).Kill) }

func (p *kubeProxy) end(ctx context.Context, how func(*testbed.Process, context.Context) error) error {
	if p.process == nil {
		return fmt.Errorf("kube-proxy on %s is not running", p.host.Name())
	}
	process := p.process
	p.process = nil
	select {
	case <-process.Exited():
		return p.ended(process)
	default:
	}
	return how(process, ctx)
}

// Running is true from Start until Stop or Kill, also if it ended by itself.
func (p *kubeProxy) Running() bool { return p.process != nil }

// Log is what it wrote, over all its runs.
func (p *kubeProxy) Log() *testbed.Log { return p.log }

// Settle polls: first the API must have the revision, then the kernel. It asks less and
// less often, since it is CPU of an emulated machine that it waits for.
const (
	firstPoll = 20 * time.Millisecond
	lastPoll  = 500 * time.Millisecond
	// cleanPause is for the flows of UDP that kube-proxy deletes after it has opened
	// the canary's port: nothing tells when that is done.
	cleanPause = 200 * time.Millisecond
)

// Settle waits until the kernel has the revision of the manifests, in both families.
func (p *kubeProxy) Settle(ctx context.Context, revision string) error {
	process := p.process
	if process == nil {
		return fmt.Errorf("kube-proxy on %s is not running", p.host.Name())
	}
	missing := testbed.Families()
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		now, err := p.mirror.sync(ctx)
		if err != nil {
			return fmt.Errorf("the API server does not take the manifests: %w", err)
		}
		for now.revision == revision && len(missing) > 0 && now.canary.seen(ctx, p.host, missing[0]) {
			missing = missing[1:]
		}
		wait := poll
		if len(missing) == 0 {
			wait = cleanPause
		}
		select {
		case <-time.After(wait):
		case <-process.Exited():
			return p.ended(process)
		case <-ctx.Done():
			return fmt.Errorf("%v has not settled at revision %s (manifests %s, canary %d missing in %v): %w\n%s",
				process, revision, now.revision, now.canary, missing, context.Cause(ctx), p.lastWords())
		}
		if len(missing) == 0 {
			return nil
		}
	}
}

func (p *kubeProxy) ended(process *testbed.Process) error {
	return fmt.Errorf("%v ended by itself\n%s", process, p.lastWords())
}

func (p *kubeProxy) lastWords() string { return strings.Join(p.log.Last(20, nil), "\n") }
