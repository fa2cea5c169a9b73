package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/report"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// noAddr stands for any endpoint.
var noAddr netip.Addr

// connections measures connects through the first, the middle and the last Service.
func (t *trial) connections(ctx context.Context) error {
	all := t.world.Services
	for _, one := range []struct {
		key     string
		service world.Service
	}{{report.ConnectFirst, all[0]}, {report.ConnectMiddle, all[len(all)/2]}, {report.ConnectLast, all[t.world.Probe]}} {
		for range t.connects {
			_, took, err := t.room.Client.Ask(one.service.Frontend(), time.Second)
			if err != nil {
				return err
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			t.noteTime(one.key, took)
		}
	}
	return nil
}

// change does something and waits until the kernel shows it: done when there says so.
// The CPU that it costs counts until the proxy rests again.
func (t *trial) change(ctx context.Context, kernelKey, cpuKey string, do func() error, there func() (bool, error)) error {
	before, err := t.process.CPU()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := do(); err != nil {
		return err
	}
	for {
		now := time.Now()
		ok, err := there()
		if err != nil {
			return err
		}
		if ok {
			t.noteTime(kernelKey, now.Sub(began))
			break
		}
		if err := t.pause(ctx, began); err != nil {
			return fmt.Errorf("the kernel does not show the change: %w; its last words:\n%s", err, t.process.Said())
		}
	}
	if err := t.quiet(ctx); err != nil {
		return err
	}
	after, err := t.process.CPU()
	t.noteTime(cpuKey, after-before)
	return err
}

// picked is the Service for the i-th change: spread over all, and not those that
// connections have gone to.
func (t *trial) picked(i int) int {
	n := len(t.world.Services) - 1
	at := (i*7919 + n/3) % n
	if at == 0 || at == len(t.world.Services)/2 {
		at++
	}
	return at
}

// replace replaces endpoints, and looks at the kernel; then those of the probe, and
// asks it.
func (t *trial) replace(ctx context.Context) error {
	for i := range t.repeats {
		var now world.Service
		err := t.change(ctx, report.ReplaceKernel, report.ReplaceCPU, func() error {
			now, _ = t.world.Replace(t.picked(i))
			return t.source.putEndpoints(ctx, now)
		}, func() (bool, error) { return t.sight.Serves(ctx, t.world, now) })
		if err != nil {
			return err
		}
	}
	for i := range t.repeats + 1 {
		stop := func() (int, bool) { return 0, false }
		if i == 0 { // whoever counts, disturbs: this one is not timed
			stop = t.process.Children()
		}
		now, _ := t.world.Replace(t.world.Probe)
		began := time.Now()
		err := t.source.putEndpoints(ctx, now)
		var at time.Time
		if err == nil {
			at, err = t.room.Client.Until(ctx, now.Frontend(), now.Endpoints[0])
		}
		if err == nil {
			err = t.quiet(ctx)
		}
		n, counted := stop()
		if err != nil {
			return err
		}
		if i == 0 {
			if counted {
				t.note(report.ReplaceRun, float64(n))
			}
			continue
		}
		t.noteTime(report.ReplacePacket, at.Sub(began))
	}
	return nil
}

// addRemove adds Services and removes them, with an eye on the kernel; then adds one
// after the other and asks it.
func (t *trial) addRemove(ctx context.Context) error {
	endpoints := len(t.world.Services[0].Endpoints)
	for range t.repeats {
		var s world.Service
		err := t.change(ctx, report.AddKernel, report.AddCPU, func() (err error) {
			s, err = t.source.add(ctx, t.world, endpoints)
			return err
		}, func() (bool, error) { return t.sight.Serves(ctx, t.world, s) })
		if err != nil {
			return err
		}
	}
	for range t.repeats {
		var s world.Service
		err := t.change(ctx, report.RemoveKernel, report.RemoveCPU, func() error {
			s = t.world.Remove()
			return t.source.remove(ctx, s)
		}, func() (bool, error) { return t.sight.Gone(ctx, t.world, s) })
		if err != nil {
			return err
		}
	}
	for range t.repeats {
		began := time.Now()
		s, err := t.source.add(ctx, t.world, endpoints)
		if err != nil {
			return err
		}
		at, err := t.room.Client.Until(ctx, s.Frontend(), noAddr)
		if err != nil {
			return err
		}
		t.noteTime(report.AddPacket, at.Sub(began))
		if err := t.quiet(ctx); err != nil {
			return err
		}
	}
	return nil
}
