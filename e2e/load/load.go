// Package load asks Services all the time, holds streams through them, and counts what
// failed: for tests in which nothing may.
package load

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// Load is under way from Ask and Hold until Stop. The zero value is ready.
type Load struct {
	// Streaming is how long a stream may take to answer; zero: DefaultStreaming.
	Streaming time.Duration

	mu     sync.Mutex
	counts Counts
	pulse  pulse
	stop   chan struct{}
	loops  sync.WaitGroup
}

// DefaultStreaming lets a lost packet be sent again several times.
const DefaultStreaming = 10 * time.Second

// Counts is what was seen so far.
type Counts struct {
	Asked, Streams, Lines int
	// Failed counts calls that nobody answered, by their name and outcome, Broken the
	// streams that ended, by name.
	Failed, Broken map[string]int
	// Stood counts calls and lines that were late while the machine itself stood still
	// for a good part of their time, as emulated ones do on a busy host: they say nothing.
	Stood int
	// Slowest is the longest time of a call that was answered.
	Slowest time.Duration
	// First are the first failures, in words.
	First []string
}

// Bad is the number of failures of all kinds.
func (c Counts) Bad() int {
	n := 0
	for _, of := range []map[string]int{c.Failed, c.Broken} {
		for _, k := range of {
			n += k
		}
	}
	return n
}

// String is one line.
func (c Counts) String() string {
	text := fmt.Sprintf("%d requests, %d streams with %d lines, %d failures, slowest answer %v",
		c.Asked, c.Streams, c.Lines, c.Bad(), c.Slowest.Round(time.Millisecond))
	for _, of := range []map[string]int{c.Failed, c.Broken} {
		for _, kind := range slices.Sorted(maps.Keys(of)) {
			text += fmt.Sprintf("; %s: %d", kind, of[kind])
		}
	}
	if c.Stood > 0 {
		text += fmt.Sprintf("; %d late because the machine stood still", c.Stood)
	}
	if len(c.First) > 0 {
		text += "\n  " + strings.Join(c.First, "\n  ")
	}
	return text
}

// maxFirst bounds the failures that are kept in words.
const maxFirst = 10

// fail notes a failure.
func (l *Load) fail(of *map[string]int, kind, text string) {
	if *of == nil {
		*of = map[string]int{}
	}
	(*of)[kind]++
	if len(l.counts.First) < maxFirst {
		l.counts.First = append(l.counts.First, time.Now().Format("15:04:05.000 ")+kind+": "+text)
	}
}

// begin makes the channel that ends the loops.
func (l *Load) begin() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stop == nil {
		l.stop = make(chan struct{})
		l.loops.Go(func() { l.pulse.run(l.stop) })
	}
	return l.stop
}

// Ask asks again and again, with a pause between, until Stop. Name stands for the call
// in Counts.
//
// Two calls of one client that go to different frontends of one endpoint must differ in
// the client's address: IPVS finds the connection of an answer by the endpoint and by the
// client's address and port, so that one port that is used for both at the same time
// leaves the older connection without answers.
func (l *Load) Ask(name string, from *testbed.Host, call probe.Call, pause time.Duration) {
	stop := l.begin()
	l.loops.Go(func() {
		for wait(stop, pause) {
			r := from.Probe.Do(call)
			l.mu.Lock()
			l.counts.Asked++
			switch {
			case r.Outcome == probe.OK:
				l.counts.Slowest = max(l.counts.Slowest, r.Took)
			case r.Outcome == probe.Timeout && l.pulse.stood(r.Took):
				l.counts.Stood++
			default:
				l.fail(&l.counts.Failed, name+" "+string(r.Outcome), r.String())
			}
			l.mu.Unlock()
		}
	})
}

// Hold opens a stream and sends lines through it, with a pause between, until Stop or
// until it breaks. One that was late because the machine stood still is opened anew.
func (l *Load) Hold(name string, from *testbed.Host, call probe.Call, pause time.Duration) error {
	stream, err := from.Hold(call)
	if err != nil {
		return err
	}
	stop := l.begin()
	l.mu.Lock()
	l.counts.Streams++
	limit := l.Streaming
	l.mu.Unlock()
	if limit == 0 {
		limit = DefaultStreaming
	}
	l.loops.Go(func() {
		defer func() { _ = stream.Close() }() // one that broke is counted already
		for wait(stop, pause) {
			began := time.Now()
			err := stream.Alive(limit)
			late := errors.Is(err, os.ErrDeadlineExceeded) && l.pulse.stood(time.Since(began))
			if late {
				_ = stream.Close()
				var again *probe.Stream
				if again, err = from.Hold(call); err == nil {
					stream = again
				}
			}
			l.line(name, late, err)
			if err != nil {
				return
			}
		}
	})
	return nil
}

// line notes what became of a line.
func (l *Load) line(name string, late bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Lines++
	if late {
		l.counts.Stood++
	}
	if err != nil {
		l.fail(&l.counts.Broken, name, err.Error())
	}
}

func wait(stop <-chan struct{}, pause time.Duration) bool {
	select {
	case <-stop:
		return false
	case <-time.After(pause):
		return true
	}
}

// Counts is what was seen so far.
func (l *Load) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.counts
	c.Failed, c.Broken, c.First = maps.Clone(c.Failed), maps.Clone(c.Broken), slices.Clone(c.First)
	return c
}

// Stop ends all loops and streams, and returns what was seen.
func (l *Load) Stop() Counts {
	close(l.begin())
	l.loops.Wait()
	return l.Counts()
}
