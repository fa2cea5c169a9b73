package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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
	progress io.Writer
	began    time.Time
	// floor is what ours had in the kernel, by size, as the plain tools write it.
	floor map[world.Size]saved
}

// run measures everything; the report is there, as far as it came, also with an error.
func (o *options) run(ctx context.Context, progress io.Writer) (r *report.Report, err error) {
	b := &bench{options: *o, progress: progress, began: time.Now(), floor: map[world.Size]saved{}}
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
	// Modules are there on a node before its proxy starts; what is built in or lacks is
	// found out by the subject.
	_ = exec.CommandContext(ctx, "modprobe", "-aq", "ip_vs", "ip_vs_rr", "nf_conntrack", "ip_set", "dummy").Run()
	r = &report.Report{Date: b.began.Format(time.DateOnly), Machine: machine(), Versions: map[string]string{}, Notes: o.notes}
	for _, size := range o.sizes {
		for round := 1; round <= o.rounds; round++ {
			for _, name := range o.subjects {
				if err := ctx.Err(); err != nil {
					return r, err
				}
				s, _ := find(name)
				r.Versions[name] = b.programs.versions[s.program]
				r.Runs = append(r.Runs, b.one(ctx, s, size, round))
			}
		}
	}
	if len(r.Failures()) > 0 {
		err = errFailed
	}
	return r, err
}

// one measures one subject; what fails is in the result.
func (b *bench) one(ctx context.Context, s subject, size world.Size, round int) report.Run {
	run := report.Run{Subject: s.name, Size: size, Round: round, Values: map[string][]float64{}}
	t := &trial{bench: b, subject: s, world: world.New(size), values: run.Values,
		title: fmt.Sprintf("%v, round %d of %d, %s", size, round, b.rounds, s.name)}
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
	if err != nil {
		run.Failure = err.Error()
		t.say("FAILED: %v", err)
	}
	return run
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
