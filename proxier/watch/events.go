package watch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"kube-ipvs-proxy/proxier/plan"
)

// controllerName is the reportingController of Events.
const controllerName = "kube-ipvs-proxy"

// EventType is the type of an Event (events.k8s.io/v1).
type EventType string

// The types of Events.
const (
	Normal  EventType = "Normal"
	Warning EventType = "Warning"
)

// Eventer tells the users of a cluster what happened, by Kubernetes Events. It never
// blocks and never fails: an Event is a courtesy.
type Eventer interface {
	// Node tells something about this node.
	Node(t EventType, reason, action, note string)
	// Service tells something about a Service.
	Service(name plan.ServiceName, t EventType, reason, action, note string)
}

// NoEvents tells nobody.
type NoEvents struct{}

// Node does nothing.
func (NoEvents) Node(EventType, string, string, string) {}

// Service does nothing.
func (NoEvents) Service(plan.ServiceName, EventType, string, string, string) {}

// EventsConfig is what Events need.
type EventsConfig struct {
	NodeName string
	// UID finds the UID of a Service, so that "kubectl describe" shows its Events; it
	// may be nil or return the empty string.
	UID func(plan.ServiceName) string
	// OnProblem is called by Run when an Event could not be written: once for each
	// reason. It may be nil.
	OnProblem func(Problem)
}

// Events writes Kubernetes Events through the API server. Equal ones within an hour
// are one Event with a count.
type Events struct {
	config  EventsConfig
	queue   chan event
	sink    eventSink
	limit   flowcontrol.RateLimiter
	retry   time.Duration
	known   map[event]*written
	told    map[string]bool
	dropped atomic.Uint64
}

// The limits of Events: how many wait, how many are written a second and at first,
// how often one is tried, how long equal ones are one, and how often its count is
// written.
const (
	maxQueued     = 1000
	eventQPS      = 1
	eventBurst    = 25
	eventAttempts = 12
	maxEventRetry = 10 * time.Second
	sameEvent     = time.Hour
	countInterval = 5 * time.Minute
)

// event is one thing to tell; service is zero for the node.
type event struct {
	service              plan.ServiceName
	kind                 EventType
	reason, action, note string
}

// written is an Event that the API server has.
type written struct {
	namespace, name string
	first, last     time.Time
	count           int32
}

// eventSink is the part of the API server that takes Events.
type eventSink interface {
	create(ctx context.Context, e *eventsv1.Event) error
	patch(ctx context.Context, namespace, name string, patch []byte) error
}

// NewEvents makes a teller of Events. What it is told waits until Run.
func NewEvents(client *Client, config EventsConfig) *Events {
	return newEvents(clientSink{client}, config)
}

func newEvents(sink eventSink, config EventsConfig) *Events {
	config.NodeName = nodeKey(config.NodeName)
	if config.UID == nil {
		config.UID = func(plan.ServiceName) string { return "" }
	}
	if config.OnProblem == nil {
		config.OnProblem = func(Problem) {}
	}
	return &Events{
		config: config, queue: make(chan event, maxQueued), sink: sink,
		limit: flowcontrol.NewTokenBucketRateLimiter(eventQPS, eventBurst), retry: 500 * time.Millisecond,
		known: make(map[event]*written), told: make(map[string]bool),
	}
}

// Node tells something about this node.
func (e *Events) Node(t EventType, reason, action, note string) {
	e.tell(event{kind: t, reason: reason, action: action, note: note})
}

// Service tells something about a Service.
func (e *Events) Service(name plan.ServiceName, t EventType, reason, action, note string) {
	e.tell(event{service: name, kind: t, reason: reason, action: action, note: note})
}

// Dropped counts what was not told: too much came at once, or the API server did not
// take it.
func (e *Events) Dropped() uint64 { return e.dropped.Load() }

func (e *Events) tell(one event) {
	select {
	case e.queue <- one:
	default:
		e.dropped.Add(1)
	}
}

// Run writes what is told until ctx ends.
func (e *Events) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case one := <-e.queue:
			e.write(ctx, one, time.Now())
		}
	}
}

// write tells one thing: as a new Event, or by the count of the one that says the same.
func (e *Events) write(ctx context.Context, one event, now time.Time) {
	for key, w := range e.known {
		if now.Sub(w.first) > sameEvent {
			delete(e.known, key)
		}
	}
	if w := e.known[one]; w != nil {
		w.count++
		if now.Sub(w.last) < countInterval {
			return
		}
		if e.try(ctx, func() error { return e.sink.patch(ctx, w.namespace, w.name, countPatch(w.count, now)) }) {
			w.last = now
		}
		return
	}
	object := e.object(one, now)
	if e.try(ctx, func() error { return e.sink.create(ctx, object) }) {
		e.known[one] = &written{namespace: object.Namespace, name: object.Name, first: now, last: now, count: 1}
	}
}

// try writes until it succeeds or will not succeed.
func (e *Events) try(ctx context.Context, do func() error) bool {
	var err error
	wait := e.retry
	for n := range eventAttempts {
		if n > 0 {
			select {
			case <-ctx.Done():
				return false
			case <-time.After(wait):
				wait = min(2*wait, maxEventRetry)
			}
		}
		if err = e.limit.Wait(ctx); err != nil {
			return false
		}
		if err = do(); err == nil || apierrors.IsAlreadyExists(err) {
			return true
		}
		if final(err) {
			break
		}
	}
	if ctx.Err() == nil {
		e.dropped.Add(1)
		e.failed(err)
	}
	return false
}

// final reports that the API server will not take the Event.
func final(err error) bool {
	var status apierrors.APIStatus
	code := int32(0)
	if errors.As(err, &status) {
		code = status.Status().Code
	}
	return code >= 400 && code < 500 && !apierrors.IsTooManyRequests(err)
}

// failed reports why an Event was not written, once.
func (e *Events) failed(err error) {
	reason := reasonOf(err)
	key := digits.ReplaceAllString(reason, "#")
	if e.told[key] || len(e.told) >= maxProblems {
		return
	}
	e.told[key] = true
	e.config.OnProblem(Problem{Object: "Events", Reason: reason})
}

// The limits of an Event's texts, and of its name without the time (events.k8s.io/v1).
const (
	maxNote      = 1024
	maxReason    = 128
	maxEventName = 253 - 17
)

// object is the Event for one thing. Those of Nodes, which have no namespace, stand in
// "default".
func (e *Events) object(one event, now time.Time) *eventsv1.Event {
	about := corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: e.config.NodeName, UID: types.UID(e.config.NodeName)}
	namespace := metav1.NamespaceDefault
	if one.service != (plan.ServiceName{}) {
		namespace = one.service.Namespace
		about = corev1.ObjectReference{APIVersion: "v1", Kind: "Service", Namespace: namespace, Name: one.service.Name,
			UID: types.UID(e.config.UID(one.service))}
	}
	return &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace,
			Name:      fmt.Sprintf("%s.%x", short(about.Name, maxEventName), now.UnixNano()),
		},
		EventTime: metav1.NewMicroTime(now), ReportingController: controllerName,
		ReportingInstance: short(controllerName+"-"+e.config.NodeName, maxReason),
		Type:              string(one.kind), Reason: short(one.reason, maxReason), Action: short(one.action, maxReason),
		Note: short(one.note, maxNote), Regarding: about,
	}
}

// short cuts a text to a number of bytes.
func short(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}

// countPatch says how often an Event was told.
func countPatch(count int32, now time.Time) []byte {
	patch, err := json.Marshal(map[string]any{"series": eventsv1.EventSeries{Count: count, LastObservedTime: metav1.NewMicroTime(now)}})
	if err != nil {
		panic(err) // a number and a time
	}
	return patch
}

// clientSink writes through the API server.
type clientSink struct{ client *Client }

func (s clientSink) create(ctx context.Context, e *eventsv1.Event) error {
	return s.client.events.Post().Namespace(e.Namespace).Resource("events").Body(e).Do(ctx).Error()
}

func (s clientSink) patch(ctx context.Context, namespace, name string, patch []byte) error {
	return s.client.events.Patch(types.MergePatchType).Namespace(namespace).Resource("events").Name(name).Body(patch).Do(ctx).Error()
}
