package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/report"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/room"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/sight"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// trial is one subject in one room.
type trial struct {
	*bench
	subject subject
	world   *world.World
	values  map[string][]float64
	title   string
	keep    func() // writes the results so far

	room    *room.Room
	source  source
	sight   sight.Sight
	process *room.Process
	lock    sync.Mutex // of values, while the probe is asked beside other things
}

// say tells how far it is.
func (t *trial) say(format string, args ...any) {
	fmt.Fprintf(t.progress, "%6.0f s  %s: %s\n", time.Since(t.began).Seconds(), t.title, fmt.Sprintf(format, args...))
}

// note adds a value.
func (t *trial) note(key string, v float64) {
	t.lock.Lock()
	defer t.lock.Unlock()
	t.values[key] = append(t.values[key], v)
}

func (t *trial) noteTime(key string, d time.Duration) { t.note(key, d.Seconds()) }

// proxy measures a proxy from its start on.
func (t *trial) proxy(ctx context.Context) error {
	if err := t.prepare(ctx); err != nil {
		return err
	}
	t.say("prepared")
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{
		{"start", t.start}, {"connections", t.connections}, {"endpoints replaced", t.replace},
		{"Services added and removed", t.addRemove}, {"20 changes a second", t.changes}, {"rest", t.rest},
	} {
		limited, cancel := context.WithTimeoutCause(ctx, t.wait, fmt.Errorf("it took more than %v (--wait)", t.wait))
		began := time.Now()
		err := step.do(limited)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		t.say("%s, %.1f s", step.name, time.Since(began).Seconds())
		t.keep()
	}
	return nil
}

// prepare makes the room, the API server with everything in it, and the sight.
func (t *trial) prepare(ctx context.Context) (err error) {
	if t.room, err = room.New(t.groups); err != nil {
		return err
	}
	if t.subject.program != "" {
		if err := t.serve(ctx); err != nil {
			return err
		}
	}
	return t.room.OnNode(func() (err error) {
		t.sight, err = t.subject.look(ctx)
		return err
	})
}

// serve makes the world's objects and lets the node reach their API server.
func (t *trial) serve(ctx context.Context) error {
	l, err := t.room.Listen()
	if err != nil {
		return err
	}
	access, err := t.source.load(ctx, t.world, l)
	if err != nil {
		return err
	}
	return os.WriteFile(kubeconfig(t.dir), access, 0o600)
}

// close takes down what is there.
func (t *trial) close() {
	if t.sight != nil {
		t.sight.Close()
	}
	if t.room != nil {
		t.room.Close()
	}
	if err := t.source.close(); err != nil {
		t.say("the API server's objects: %v", err)
	}
}

// start starts the proxy and waits until all is programmed.
func (t *trial) start(ctx context.Context) error {
	args, err := t.subject.args(t.dir, t.world.Node())
	if err != nil {
		return err
	}
	if t.subject.program == oursProgram {
		args = append(args, t.oursArgs...)
	}
	if t.process, err = t.room.Start(filepath.Join(t.dir, t.subject.program), args...); err != nil {
		return err
	}
	asking, cancel := context.WithCancel(ctx)
	packet := make(chan error, 1)
	var first time.Time
	var asker sync.WaitGroup
	asker.Go(func() {
		var err error
		first, err = t.room.Client.Until(asking, t.world.Services[0].Frontend(), noAddr)
		packet <- err
	})
	defer func() { cancel(); asker.Wait() }()
	right, err := t.programmed(ctx)
	if err != nil {
		return err
	}
	t.noteTime(report.StartRight, right.Sub(t.process.Started))
	if read, ok := t.source.read(); ok {
		t.noteTime(report.ListsRight, right.Sub(read))
	}
	if err := <-packet; err != nil {
		return fmt.Errorf("all is programmed, but %w", err)
	}
	t.noteTime(report.FirstPacket, first.Sub(t.process.Started))
	if err := t.startEnds(ctx); err != nil {
		return err
	}
	cpu, err := t.process.CPU()
	t.noteTime(report.StartCPU, cpu)
	kernel, err2 := t.process.KernelCPU()
	t.noteTime(report.StartKernelCPU, kernel)
	rss, peak, err3 := t.process.RSS()
	t.note(report.RSS, float64(rss))
	t.note(report.RSSPeak, float64(peak))
	if err := errors.Join(err, err2, err3); err != nil {
		return err
	}
	if t.subject.name == report.Ours && slices.Contains(t.subjects, report.Floor) {
		t.floor[t.world.Size()], err = t.save(ctx)
	}
	return err
}

// tellEvery is the time between two lines about a wait.
const tellEvery = 5 * time.Second

// programmed waits until the kernel has everything, and returns when that was seen.
func (t *trial) programmed(ctx context.Context) (time.Time, error) {
	how, told := "", time.Now()
	for {
		now := time.Now()
		if now.Sub(told) > tellEvery {
			t.say("%s", how)
			told = now
		}
		there, what, err := t.sight.Seems(ctx, t.world)
		if err != nil && ctx.Err() == nil {
			return now, err
		}
		if there {
			if err := t.sight.Verify(ctx, t.world); err == nil {
				return now, nil
			} else if what = err.Error(); ctx.Err() != nil {
				return now, err
			}
		}
		how = what
		if err := t.process.Ended(); err != nil {
			return now, fmt.Errorf("never ready: the kernel has: %s; %w", how, err)
		}
		if err := t.pause(ctx, t.process.Started); err != nil {
			return now, fmt.Errorf("never ready: %w; the kernel has: %s; asked for and not served: %q; its last words:\n%s",
				err, how, t.source.refused(), t.process.Said())
		}
	}
}

// pause waits for the next look; it fails when there is no sense in one.
func (t *trial) pause(ctx context.Context, since time.Time) error {
	if err := t.process.Ended(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(room.Pause(time.Since(since))):
		return nil
	}
}

// quiet waits until the proxy rests.
func (t *trial) quiet(ctx context.Context) error { return t.process.Quiet(ctx) }

// afterStart is how long a proxy may go on with its start once all is programmed, as by a
// second look at rules that it wrote: that is none of the first change's costs.
const afterStart = 3 * time.Second

// startEnds waits until the proxy rests from its start.
func (t *trial) startEnds(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(afterStart):
		return t.quiet(ctx)
	}
}
