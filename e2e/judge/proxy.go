package judge

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
)

// proxy is a proxy on one node that reads the API: kube-proxy, or the product.
type proxy struct {
	*kind
	host    *testbed.Host
	mirror  *mirror
	log     *testbed.Log
	process *testbed.Process // nil when it was never started or was ended by us
}

// kind is what the proxies of all nodes have in common.
type kind struct {
	name       string // in messages
	program    string
	kubeconfig string
	// args are all arguments on a node, where a test wants more.
	args func(node, kubeconfig string, more []string) []string
	// graceful: it ends with status 0 after SIGTERM, else it dies of it.
	graceful bool
}

// Start runs it with the arguments that every node has, then args.
func (p *proxy) Start(args ...string) error {
	if p.process != nil {
		return fmt.Errorf("%v is already running", p.process)
	}
	all := p.args(p.host.Name(), p.kubeconfig, args)
	if _, err := fmt.Fprintf(p.log, "==== start %s\n", strings.Join(all, " ")); err != nil {
		return err
	}
	var err error
	p.process, err = p.host.StartProcess(p.log, p.program, all...)
	return err
}

// Stop sends SIGTERM.
func (p *proxy) Stop(ctx context.Context) error {
	if p.graceful {
		return p.end(ctx, (*testbed.Process).Stop)
	}
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
func (p *proxy) Kill(ctx context.Context) error { return p.end(ctx, (*testbed.Process).Kill) }

func (p *proxy) end(ctx context.Context, how func(*testbed.Process, context.Context) error) error {
	if p.process == nil {
		return fmt.Errorf("%s on %s is not running", p.name, p.host.Name())
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
func (p *proxy) Running() bool { return p.process != nil }

// Log is what it wrote, over all its runs.
func (p *proxy) Log() *testbed.Log { return p.log }

// Settle polls: first the API must have the revision, then the kernel. It asks less and
// less often, since it is CPU of an emulated machine that it waits for.
const (
	firstPoll = 20 * time.Millisecond
	lastPoll  = 500 * time.Millisecond
	// cleanPause is for the flows of UDP that kube-proxy deletes after it has opened
	// the canary's port, and for the canary that goes: nothing tells when that is done.
	cleanPause = 200 * time.Millisecond
)

// Settle waits until the kernel has the revision of the manifests, in both families.
func (p *proxy) Settle(ctx context.Context, revision string) error {
	process := p.process
	if process == nil {
		return fmt.Errorf("%s on %s is not running", p.name, p.host.Name())
	}
	missing := testbed.Families()
	for poll := firstPoll; ; poll = min(2*poll, lastPoll) {
		select {
		case <-process.Exited():
			return p.ended(process)
		default:
		}
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
			continue
		case <-ctx.Done():
			return fmt.Errorf("%v has not settled at revision %s (manifests %s, canary %d missing in %v): %w\n%s",
				process, revision, now.revision, now.canary, missing, context.Cause(ctx), p.lastWords())
		}
		if len(missing) == 0 {
			return nil
		}
	}
}

func (p *proxy) ended(process *testbed.Process) error {
	return fmt.Errorf("%v ended by itself: %w\n%s", process, process.Ended(), p.lastWords())
}

func (p *proxy) lastWords() string { return strings.Join(p.log.Last(20, nil), "\n") }
