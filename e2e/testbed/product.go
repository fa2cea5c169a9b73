package testbed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Proxy is a Service proxy of one node.
type Proxy interface {
	// Start runs the proxy with further arguments and returns at once.
	Start(args ...string) error
	// Stop ends it in good order, Kill without warning; both wait for the end.
	Stop(ctx context.Context) error
	Kill(ctx context.Context) error
	// Running is true from Start until Stop or Kill, also if it ended by itself.
	Running() bool
	// Settle waits until the kernel has all of the manifests' revision.
	Settle(ctx context.Context, revision string) error
	// Log is what it wrote, over all its runs.
	Log() *Log
}

// product is kube-ipvs-proxy on one node.
type product struct {
	host    *Host
	program string
	folder  string
	log     *Log
	process *Process // nil when it was never started or was ended by us
}

// Start runs it with the arguments that every node has, then args.
func (p *product) Start(args ...string) error {
	if p.process != nil {
		return fmt.Errorf("%v is already running", p.process)
	}
	all := append([]string{
		"run",
		"--manifests", p.folder,
		"--hostname-override", p.host.Name(),
		"--cluster-cidr", ClusterCIDR,
	}, args...)
	// What an earlier run settled is no news of this one.
	if _, err := fmt.Fprintf(p.log, "%s %s\n", startMark, strings.Join(all, " ")); err != nil {
		return err
	}
	var err error
	p.process, err = p.host.StartProcess(p.log, p.program, all...)
	return err
}

func (p *product) Stop(ctx context.Context) error { return p.end(ctx, (*Process).Stop) }
func (p *product) Kill(ctx context.Context) error { return p.end(ctx, (*Process).Kill) }
func (p *product) Running() bool                  { return p.process != nil }
func (p *product) Log() *Log                      { return p.log }

func (p *product) end(ctx context.Context, how func(*Process, context.Context) error) error {
	if p.process == nil {
		return fmt.Errorf("%s on %s is not running", p.program, p.host.Name())
	}
	process := p.process
	p.process = nil
	return how(process, ctx)
}

// Settle waits for the line that names the revision; no other settled line may
// have come after it.
func (p *product) Settle(ctx context.Context, revision string) error {
	if p.process == nil {
		return fmt.Errorf("%s on %s is not running", p.program, p.host.Name())
	}
	for {
		next := p.log.next()
		select {
		case <-p.process.Exited():
			return fmt.Errorf("%v ended: %w; %s", p.process, p.process.Ended(), p.log.tail())
		default:
		}
		last := p.log.Last(1, func(l string) bool { return settledRevision(l) != "" || strings.HasPrefix(l, startMark) })
		if len(last) == 1 && settledRevision(last[0]) == revision {
			return nil
		}
		select {
		case <-next:
		case <-p.process.Exited(): // told above
		case <-ctx.Done():
			return fmt.Errorf("%v has not settled at revision %s: %w; %s", p.process, revision, context.Cause(ctx), p.log.tail())
		}
	}
}

// startMark begins the line that we write into the log at each start.
const startMark = "==== start"

// settledRevision is the revision of a line that says settled, else empty; it
// reads both formats of log/slog.
func settledRevision(line string) string {
	if strings.HasPrefix(line, "{") {
		var l struct {
			Msg      string `json:"msg"`
			Revision string `json:"revision"`
		}
		if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "settled" {
			return l.Revision
		}
		return ""
	}
	if !strings.Contains(line, "msg=settled ") {
		return ""
	}
	_, rest, ok := strings.Cut(line, " revision=")
	if !ok {
		return ""
	}
	revision, _, _ := strings.Cut(rest, " ")
	return strings.Trim(revision, `"`)
}

// errNoProgram says how to get what is missing.
var errNoProgram = errors.New("no kube-ipvs-proxy to test: make build, and name its folder in BIN")
