package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/report"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/room"
)

// every is the time between two of many changes.
const every = time.Second / 20

// pending is a change that the kernel does not show yet.
type pending struct {
	service int
	since   time.Time
}

// changes makes 20 changes a second: endpoints replaced, each of another Service, and
// once a second that of the probe, which is asked.
func (t *trial) changes(ctx context.Context) error {
	total := int(t.stream / every)
	if total == 0 {
		return nil
	}
	before, err := t.process.CPU()
	if err != nil {
		return err
	}
	var waiting []pending
	answers, asked := make(chan error, 1), false
	asking, cancel := context.WithCancel(ctx)
	var asker sync.WaitGroup
	defer func() { cancel(); asker.Wait() }()
	begin := time.Now()
	for sent := 0; sent < total || len(waiting) > 0 || asked; {
		now := time.Now()
		if sent < total && now.Sub(begin) >= time.Duration(sent)*every {
			if sent%20 == 10 && !asked {
				asked = true
				t.askProbe(asking, &asker, answers)
			} else {
				at := t.picked(sent)
				s, _ := t.world.Replace(at)
				if err := t.source.putEndpoints(ctx, s); err != nil {
					return err
				}
				waiting = append(waiting, pending{at, now})
			}
			sent++
			continue
		}
		if waiting, err = t.seen(ctx, waiting); err != nil {
			return err
		}
		if err := t.process.Ended(); err != nil {
			return err
		}
		select {
		case err := <-answers:
			if asked = false; err != nil {
				return err
			}
		case <-time.After(nextLook(waiting, begin.Add(time.Duration(sent)*every))):
		case <-ctx.Done():
			return fmt.Errorf("%d changes are not in the kernel: %w", len(waiting), context.Cause(ctx))
		}
	}
	if err := t.quiet(ctx); err != nil {
		return err
	}
	after, err := t.process.CPU()
	t.noteTime(report.StreamCPU, (after-before)/time.Duration(total))
	return err
}

// seen takes out the changes that the kernel shows, the oldest first.
func (t *trial) seen(ctx context.Context, waiting []pending) ([]pending, error) {
	for len(waiting) > 0 {
		now := time.Now()
		ok, err := t.sight.Serves(ctx, t.world, t.world.Services[waiting[0].service])
		if err != nil || !ok {
			return waiting, err
		}
		t.noteTime(report.StreamKernel, now.Sub(waiting[0].since))
		waiting = waiting[1:]
	}
	return waiting, nil
}

// nextLook is how long to wait for what comes first: the next change to make, or the
// next look at the oldest that is not there.
func nextLook(waiting []pending, next time.Time) time.Duration {
	d := max(time.Until(next), 100*time.Microsecond)
	if len(waiting) > 0 {
		d = min(d, room.Pause(time.Since(waiting[0].since)))
	}
	return d
}

// askProbe changes the probe and asks it until its new endpoint answers.
func (t *trial) askProbe(ctx context.Context, asker *sync.WaitGroup, answers chan<- error) {
	s, _ := t.world.Replace(t.world.Probe)
	began := time.Now()
	if err := t.source.putEndpoints(ctx, s); err != nil {
		answers <- err
		return
	}
	asker.Go(func() {
		at, err := t.room.Client.Until(ctx, s.Frontend(), s.Endpoints[0])
		if err == nil {
			t.noteTime(report.StreamPacket, at.Sub(began))
		}
		answers <- err
	})
}

// rest measures what the proxy does when nothing changes.
func (t *trial) rest(ctx context.Context) error {
	if t.idle == 0 {
		return nil
	}
	if err := t.settle(ctx); err != nil {
		return err
	}
	stop := t.process.Children()
	used, err := t.used(ctx, t.idle)
	if n, ok := stop(); ok {
		t.note(report.IdleRun, float64(n))
	}
	t.note(report.IdleCPU, used.Seconds()*float64(time.Minute)/float64(t.idle))
	return err
}

// settle waits until what the changes have left to do is done, such as endpoints that
// wait for the end of their connections; for some proxies it never is.
func (t *trial) settle(ctx context.Context) error {
	const window, most, still = 4 * time.Second, 12, time.Millisecond
	for range most {
		used, err := t.used(ctx, window)
		if err != nil || used < still {
			return err
		}
	}
	return nil
}

// used is the CPU that the proxy uses in a time.
func (t *trial) used(ctx context.Context, d time.Duration) (time.Duration, error) {
	before, err := t.process.CPU()
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(d):
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	after, err := t.process.CPU()
	return after - before, err
}
