package watch

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/flowcontrol"

	"kube-ipvs-proxy/proxier/plan"
)

var webName = plan.ServiceName{Namespace: "default", Name: "web"}

// sink is a place for Events that can fail.
type sink struct {
	mu      sync.Mutex
	created []*eventsv1.Event
	patches []string
	tries   int
	fail    func(try int) error
}

func (s *sink) try() error {
	if s.tries++; s.fail == nil {
		return nil
	}
	return s.fail(s.tries)
}

func (s *sink) create(_ context.Context, e *eventsv1.Event) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.try(); err != nil {
		return err
	}
	s.created = append(s.created, e)
	return nil
}

func (s *sink) patch(_ context.Context, namespace, name string, patch []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.patches = append(s.patches, namespace+"/"+name+" "+string(patch))
	return s.try()
}

func quickEvents(s *sink, config EventsConfig) *Events {
	config.NodeName = "node-1"
	e := newEvents(s, config)
	e.retry, e.limit = time.Millisecond, flowcontrol.NewFakeAlwaysRateLimiter()
	return e
}

// drainQueue writes what waits, as if it were now.
func drainQueue(t *testing.T, e *Events, now time.Time) {
	for len(e.queue) > 0 {
		e.write(t.Context(), <-e.queue, now)
	}
}

func TestEventsObjects(t *testing.T) {
	s := &sink{}
	e := quickEvents(s, EventsConfig{UID: func(n plan.ServiceName) string { return "uid-of-" + n.Name }})
	e.Node(Normal, "Starting", "StartKubeProxy", "")
	e.Service(webName, Warning, "CannotServe", "Plan", strings.Repeat("ü", 1000))
	drainQueue(t, e, time.Now())
	if len(s.created) != 2 {
		t.Fatalf("%d Events", len(s.created))
	}
	n, v := s.created[0], s.created[1]
	if n.Namespace != "default" || n.Regarding.Kind != "Node" || n.Regarding.Name != "node-1" || n.Regarding.UID != "node-1" ||
		n.Type != "Normal" || n.Reason != "Starting" || n.Action != "StartKubeProxy" || n.ReportingController != "kube-ipvs-proxy" ||
		n.ReportingInstance != "kube-ipvs-proxy-node-1" || n.EventTime.IsZero() || !strings.HasPrefix(n.Name, "node-1.") {
		t.Errorf("Event of the node is %+v", n)
	}
	if v.Namespace != "default" || v.Regarding.Kind != "Service" || v.Regarding.Name != "web" || v.Regarding.UID != "uid-of-web" || v.Type != "Warning" {
		t.Errorf("Event of the Service is %+v", v)
	}
	if len(v.Note) > 1024 || !utf8.ValidString(v.Note) || !strings.HasPrefix(v.Note, "üü") {
		t.Errorf("note has %d bytes", len(v.Note))
	}
}

func TestEventsThatRepeat(t *testing.T) {
	s := &sink{}
	e := quickEvents(s, EventsConfig{})
	now := time.Now()
	tell := func(after time.Duration) {
		e.Service(webName, Warning, "CannotServe", "Plan", "note")
		drainQueue(t, e, now.Add(after))
	}
	tell(0)
	tell(time.Second)
	if len(s.created) != 1 || len(s.patches) != 0 {
		t.Fatalf("created %d, patched %v", len(s.created), s.patches)
	}
	tell(countInterval + time.Second)
	if len(s.created) != 1 || len(s.patches) != 1 || !strings.Contains(s.patches[0], `"count":3`) ||
		!strings.HasPrefix(s.patches[0], "default/"+s.created[0].Name) {
		t.Fatalf("created %d, patched %v", len(s.created), s.patches)
	}
	tell(sameEvent + time.Minute)
	if len(s.created) != 2 || len(e.known) != 1 {
		t.Errorf("created %d, known %d; want a new Event after an hour", len(s.created), len(e.known))
	}
}

func TestEventsNeverBlock(t *testing.T) {
	e := quickEvents(&sink{}, EventsConfig{}) // nobody writes
	for range maxQueued + 5 {
		e.Node(Normal, "R", "A", "")
	}
	if e.Dropped() != 5 {
		t.Errorf("dropped %d, want 5", e.Dropped())
	}
}

func TestEventsThatFail(t *testing.T) {
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "events"}, "x", errors.New("no role"))
	for _, test := range []struct {
		name                   string
		fail                   func(try int) error
		tries, created, danger int
	}{
		{"transient", func(try int) error {
			if try < 4 {
				return errors.New("connection refused")
			}
			return nil
		}, 5, 2, 0},
		{"for good", func(int) error { return forbidden }, 2, 0, 1},
		{"too many", func(try int) error {
			if try == 1 {
				return apierrors.NewTooManyRequests("later", 1)
			}
			return nil
		}, 3, 2, 0},
		{"written already", func(try int) error {
			if try == 1 {
				return apierrors.NewAlreadyExists(schema.GroupResource{Resource: "events"}, "x")
			}
			return nil
		}, 2, 1, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := &sink{fail: test.fail}
			var problems []Problem
			e := quickEvents(s, EventsConfig{OnProblem: func(p Problem) { problems = append(problems, p) }})
			e.Service(webName, Warning, "CannotServe", "Plan", "one")
			e.Service(webName, Warning, "CannotServe", "Plan", "two")
			drainQueue(t, e, time.Now())
			if s.tries != test.tries || len(s.created) != test.created || len(problems) != test.danger {
				t.Errorf("tries %d, created %d, problems %v; want %+v", s.tries, len(s.created), problems, test)
			}
		})
	}
}

// TestEventsOverHTTP sends an Event, and a count, to an API server.
func TestEventsOverHTTP(t *testing.T) {
	s := newAPIServer(t)
	c := client(t, s.start().URL)
	e := NewEvents(c, EventsConfig{NodeName: "node-1"})
	go e.Run(t.Context())
	e.Service(webName, Warning, "CannotServe", "Plan", "note")
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		s.mu.Lock()
		n := len(s.events)
		s.mu.Unlock()
		if n > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("no Event")
		}
	}
	if got := s.events[0]; got.Note != "note" || got.Regarding.Name != "web" || got.Namespace != "default" {
		t.Errorf("Event is %+v", got)
	}
	if err := (clientSink{c}).patch(t.Context(), "default", s.events[0].Name, countPatch(2, time.Now())); err != nil {
		t.Fatal(err)
	}
	if len(s.patches) != 1 || !strings.Contains(s.patches[0], `"series":{"count":2,"lastObservedTime":`) {
		t.Errorf("patches are %v", s.patches)
	}
}
