// Command soak is "make soak": hours, if need be, of churn in the lab, under requests and
// held streams, of which none may fail, while memory and kernel objects stay what they
// are. It has to run as root on a kernel with IPVS, as by e2e/vm.
//
//	soak [-for 30m] [-services 200] [-every 1m] [-restart 3m] [-pause 1s] [-change 400ms] [-wait 4s]
//
// An emulated machine on a busy host needs longer pauses and waits.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"kube-ipvs-proxy/e2e/load"
	"kube-ipvs-proxy/e2e/probe"
)

// options is the command line as one value.
type options struct {
	length   time.Duration
	services int
	every    time.Duration // between two lines of progress
	restart  time.Duration // between two restarts of the agent of node-1
	pause    time.Duration // between two requests of one caller; streams send as often
	change   time.Duration // between two changes, at most
	wait     time.Duration // for an answer
}

func main() {
	var o options
	flag.DurationVar(&o.length, "for", 30*time.Minute, "how long")
	flag.IntVar(&o.services, "services", 200, "how many Services, at most 200")
	flag.DurationVar(&o.every, "every", time.Minute, "time between two lines")
	flag.DurationVar(&o.restart, "restart", 3*time.Minute, "time between two restarts of node-1's agent, every second one by kill -9")
	flag.DurationVar(&o.pause, "pause", time.Second, "time between two requests of one of 40 callers")
	flag.DurationVar(&o.change, "change", 400*time.Millisecond, "longest time between two changes")
	flag.DurationVar(&o.wait, "wait", probe.DefaultTimeout, "how long an answer is waited for")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

// run builds the lab, churns, and tells what happened.
func run(ctx context.Context, o options) (err error) {
	s, err := newSoak(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.lab.Close()) }()
	if err := s.begin(o); err != nil {
		return err
	}
	fmt.Printf("%d Services on 3 nodes, for %v\n", o.services, o.length)
	first, err := s.sample(ctx)
	if err != nil {
		return err
	}
	first.print("start")
	samples, err := s.churn(ctx, o)
	counts := s.load.Stop()
	fmt.Printf("%d changes, %d restarts of which %d by kill -9\n%v\n", s.changes.Load(), s.restarts.Load(), s.kills.Load(), counts)
	if err != nil {
		return err
	}
	last, err := s.calm(ctx, first)
	if err != nil {
		return err
	}
	last.print("end")
	return errors.Join(judge(counts), flat(samples), same(first, last))
}

// judge wants no failure.
func judge(c load.Counts) error {
	if c.Bad() > 0 || c.Asked == 0 || c.Lines == 0 {
		return fmt.Errorf("%d failures in %d requests and %d lines of streams", c.Bad(), c.Asked, c.Lines)
	}
	return nil
}
