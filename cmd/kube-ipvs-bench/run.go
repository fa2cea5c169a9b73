package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/api"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/report"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/room"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// bench is one run of the benchmark.
type bench struct {
	options
	dir      string
	groups   *room.Groups
	programs programs
	prepared map[world.Size]api.Prepared
	cluster  *realCluster // nil: Services are served from memory
	progress io.Writer
	began    time.Time
	// floor is what ours had in the kernel, by size, as the plain tools write it.
	floor map[world.Size]saved
}

// run measures everything; the report is there, as far as it came, also with an error.
func (o *options) run(ctx context.Context, progress io.Writer) (r *report.Report, err error) {
	b := &bench{options: *o, progress: progress, began: time.Now(), floor: map[world.Size]saved{}, prepared: map[world.Size]api.Prepared{}}
	if b.dir, err = os.MkdirTemp("", "kube-ipvs-bench-"); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if b.groups, err = room.OpenGroups(b.dir); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.groups.Close()) }()
	if b.programs, err = o.fetch(ctx, b.dir); err != nil {
		return nil, err
	}
	if o.kubeconfig != "" {
		if b.cluster, err = openCluster(ctx, o.kubeconfig); err != nil {
			return nil, fmt.Errorf("--kubeconfig %s: %w", o.kubeconfig, err)
		}
	}
	// Modules are there on a node before its proxy starts; what is built in or lacks is
	// found out by the subject.
	_ = exec.CommandContext(ctx, "modprobe", "-aq", "ip_vs", "ip_vs_rr", "nf_conntrack", "ip_set", "dummy").Run()
	b.warm(ctx)
	r = &report.Report{Date: b.began.Format(time.DateOnly), Machine: machine(), Versions: map[string]string{}, Notes: o.notes}
	for _, size := range o.sizes {
		for round := 1; round <= o.rounds; round++ {
			for _, name := range o.subjects {
				if err := ctx.Err(); err != nil {
					return r, err
				}
				s, _ := find(name)
				r.Versions[name] = b.programs.versions[s.program]
				b.one(ctx, r, report.Run{Subject: name, Size: size, Round: round, Values: map[string][]float64{}})
			}
		}
	}
	if len(r.Failures()) > 0 {
		err = errFailed
	}
	return r, err
}

// warm starts each subject once with next to nothing to serve, and measures nothing: the
// first start in a kernel has it load the modules of each match and set, and programs from
// disk, which on a node is done once in its life, and takes longer than a thousand Services.
func (b *bench) warm(ctx context.Context) {
	most := min(3*time.Minute, b.wait)
	size := world.Size{Services: 3, Endpoints: 1}
	for _, name := range b.subjects {
		s, _ := find(name)
		t := &trial{
			bench: b, subject: s, source: &memory{prepared: b.prepared}, world: world.New(size, "default", world.NodeName),
			values: map[string][]float64{}, title: "first start of " + name,
		}
		limited, cancel := context.WithTimeoutCause(ctx, most, fmt.Errorf("it took more than %v", most))
		err := t.warm(limited)
		cancel()
		t.close()
		if err != nil && ctx.Err() == nil { // the measurement will tell
			t.say("%v", err)
		}
	}
}

// warm is the start alone.
func (t *trial) warm(ctx context.Context) error {
	if t.subject.program == "" {
		return t.tools(ctx)
	}
	if err := t.prepare(ctx); err != nil {
		return err
	}
	return t.start(ctx)
}

// hostPatience is how long the machine may take until it rests from the last subject, for
// each Service and at most; a host with other work never rests.
const (
	hostPatiencePerService = 30 * time.Millisecond
	hostPatience           = 30 * time.Second
)

// one measures one subject and adds its run to the report; what fails is in there.
func (b *bench) one(ctx context.Context, r *report.Report, run report.Run) {
	s, _ := find(run.Subject)
	room.HostRests(ctx, min(hostPatience, time.Duration(run.Size.Services)*hostPatiencePerService))
	run.Failure = "it was not finished"
	at := len(r.Runs)
	r.Runs = append(r.Runs, run)
	from, w := b.sourceOf(run.Size)
	t := &trial{bench: b, subject: s, source: from, world: w, values: run.Values, keep: func() { b.keep(r) },
		title: fmt.Sprintf("%v, round %d of %d, %s", run.Size, run.Round, b.rounds, s.name)}
	var err error
	if s.program == "" {
		err = t.tools(ctx)
	} else {
		err = t.proxy(ctx)
	}
	t.close()
	if err != nil && ctx.Err() != nil {
		err = errors.New("interrupted")
	}
	if err == nil {
		r.Runs[at].Failure = ""
		return
	}
	r.Runs[at].Failure = err.Error()
	t.say("FAILED: %v", err)
}

// keep writes what there is so far, for who has to end this before its time.
func (b *bench) keep(r *report.Report) {
	if b.results == "" {
		return
	}
	err := os.MkdirAll(b.results, 0o755)
	if err == nil {
		err = writeFile(filepath.Join(b.results, "results.json"), r, writers["json"])
	}
	if err != nil {
		fmt.Fprintln(b.progress, "results so far:", err)
	}
}

// machine says on what it runs.
func machine() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	text := fmt.Sprintf("Linux %s, %d CPU", unix.ByteSliceToString(u.Release[:]), runtime.NumCPU())
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return text
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return text + " (" + strings.TrimSpace(value) + ")"
		}
	}
	return text
}
