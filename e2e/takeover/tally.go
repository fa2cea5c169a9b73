package takeover

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Tally says what the loops of one kind met in a span of time.
type Tally struct {
	Kind Kind
	// Loops is how many there were, Requests what they asked together: for streams a
	// line to and fro.
	Loops, Requests, Failed int
	// Span is the time from the begin of the first failed request to that of the last.
	Span time.Duration
	// Gap is the longest time that a loop was without an answer, the pause between two
	// requests included.
	Gap time.Duration
	// Problems says which loop met what, and when after the begin of the span.
	Problems []string
}

// Tally counts what began from a moment on and before another, by kind, in the order of
// Kinds.
func (l *Load) Tally(since, until time.Time) []Tally {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []Tally
	for _, k := range Kinds() {
		t := Tally{Kind: k}
		var failed []time.Time
		for _, loop := range l.loops {
			if loop.Kind == k {
				failed = append(failed, t.add(loop, since, until)...)
			}
		}
		if len(failed) > 0 {
			t.Span = slices.MaxFunc(failed, time.Time.Compare).Sub(slices.MinFunc(failed, time.Time.Compare))
		}
		all = append(all, t)
	}
	return all
}

// add counts one loop, and returns when its failed requests began.
func (t *Tally) add(loop *Loop, since, until time.Time) (failed []time.Time) {
	t.Loops++
	answered := since
	if answered.IsZero() && len(loop.events) > 0 {
		answered = loop.events[0].began
	}
	problems := map[string][]string{}
	for _, e := range loop.events {
		end := e.began.Add(e.took)
		if e.began.Before(since) {
			if e.problem == "" {
				answered = end
			}
			continue
		}
		if !e.began.Before(until) {
			break
		}
		t.Requests++
		if e.problem == "" {
			t.Gap = max(t.Gap, end.Sub(answered))
			answered = end
			continue
		}
		t.Failed++
		failed = append(failed, e.began)
		problems[e.problem] = append(problems[e.problem], fmt.Sprintf("%.1f", e.began.Sub(since).Seconds()))
	}
	for _, p := range slices.Sorted(maps.Keys(problems)) {
		t.Problems = append(t.Problems, fmt.Sprintf("%v: %s at %s s", loop, p, strings.Join(problems[p], " ")))
	}
	return failed
}

// Row is the line of a Markdown table.
func (t Tally) Row(head ...string) string {
	cells := append(slices.Clone(head), string(t.Kind), fmt.Sprint(t.Loops), fmt.Sprint(t.Requests),
		fmt.Sprint(t.Failed), seconds(t.Span, t.Failed), seconds(t.Gap, t.Requests))
	return "| " + strings.Join(cells, " | ") + " |"
}

// seconds is a time that was measured n times.
func seconds(d time.Duration, n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}
