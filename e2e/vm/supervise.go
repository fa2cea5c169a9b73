package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// bootLimit is how long a machine may take until its program starts. A boot
// takes 3 to 10 s; a busy host needs more.
const bootLimit = 3 * time.Minute

// ending is what a run sends when it ends by itself.
type ending struct {
	outcome outcome
	err     error
}

// await waits for the run's own end, the timeout, a signal, or a boot that
// never comes to the program. It kills nothing: the caller does that next.
func await(ends <-chan ending, started <-chan struct{}, timeout time.Duration) (outcome, error) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	var expired <-chan time.Time
	if timeout > 0 {
		expired = time.After(timeout)
	}
	boot := time.After(bootLimit)
	for {
		select {
		case e := <-ends:
			return e.outcome, e.err
		case <-started:
			started, boot = nil, nil
		case <-expired:
			say("ended after %v (--timeout)", timeout)
			return outcome{code: exitTimeout}, nil
		case <-boot:
			return outcome{}, fmt.Errorf("the program did not start within %v", bootLimit)
		case s := <-signals:
			say("ended by %v", s)
			return outcome{code: exitInterrupted}, nil
		}
	}
}
