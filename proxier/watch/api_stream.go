package watch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"regexp"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// stream passes the events of one watch on, and ends it when it is silent: a watch
// can hang for days while its connection looks alive (kubernetes/kubernetes#76338).
type stream struct {
	feed  *feed
	inner watch.Interface
	out   chan watch.Event
	once  sync.Once
	stop  chan struct{}
	begun time.Time
	// server is the one that was asked first.
	server int64
	// initial: the objects that exist are still being sent.
	initial bool
}

// ResultChan returns the events; it is closed at the end of the watch.
func (s *stream) ResultChan() <-chan watch.Event { return s.out }

// Stop ends the watch.
func (s *stream) Stop() { s.once.Do(func() { close(s.stop) }) }

// run works until the watch ends or Stop.
func (s *stream) run(ctx context.Context) {
	defer close(s.out)
	defer s.inner.Stop()
	silent := time.NewTimer(s.patience())
	steady := time.NewTimer(s.feed.times.steady)
	defer silent.Stop()
	defer steady.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ctx.Done():
			return
		case <-steady.C:
			if s.initial {
				steady.Reset(s.feed.times.steady)
			} else {
				s.feed.well()
			}
		case <-silent.C:
			s.silence()
			return
		case e, ok := <-s.inner.ResultChan():
			if !ok {
				s.feed.ended(time.Since(s.begun))
				return
			}
			if !s.pass(ctx, e) {
				return
			}
			silent.Reset(s.patience())
		}
	}
}

// patience is how long the watch may be silent now.
func (s *stream) patience() time.Duration {
	if s.initial {
		return s.feed.times.begin
	}
	return s.feed.times.silence
}

// silence gives up a silent watch: the reflector opens another one, from the next
// server if there are several. In place of a
// stream of all objects that does not end it shall ask for a list.
func (s *stream) silence() {
	s.feed.note(func(r *ResourceState) { r.Renewed++ })
	s.feed.servers.leave(s.server)
	if s.initial {
		s.deliver(broken("the stream of the objects that exist does not end"))
	}
}

// broken makes the reflector list anew.
func broken(reason string) watch.Event {
	return watch.Event{Type: watch.Error, Object: &metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Reason: metav1.StatusReasonInternalError,
		Message: reason,
	}}
}

// pass notes an event and passes it on; false is the end.
func (s *stream) pass(ctx context.Context, e watch.Event) bool {
	if e.Type != watch.Error && reflect.TypeOf(e.Object) != reflect.TypeOf(s.feed.item) {
		e = broken(fmt.Sprintf("the watch sent a %T, not a %T", e.Object, s.feed.item))
	}
	switch e.Type {
	case watch.Error:
		if !s.initial {
			s.feed.failed(ctx, apierrors.FromObject(e.Object))
		}
	case watch.Bookmark:
		if m, err := meta.Accessor(e.Object); err == nil && m.GetAnnotations()[metav1.InitialEventsAnnotationKey] == "true" {
			s.initial = false
		}
		fallthrough
	default:
		s.feed.seen()
	}
	return s.deliver(e)
}

// deliver waits until the reflector takes the event; false when it wants no more.
func (s *stream) deliver(e watch.Event) bool {
	select {
	case s.out <- e: // as a rule there is room, and one thing to look at costs less than two
		return true
	default:
	}
	select {
	case s.out <- e:
		return true
	case <-s.stop:
		return false
	}
}

// digits are what differs between two reports of one trouble.
var digits = regexp.MustCompile("[0-9]+")

// reasonOf says what is wrong without what differs each time, such as the
// resourceVersion in the address of a request.
func reasonOf(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	status, spoken := errors.AsType[*apierrors.StatusError](err)
	_, unheard := errors.AsType[serverError](err)
	_, doubt := errors.AsType[answerError](err)
	switch {
	case apierrors.IsUnauthorized(err):
		return fmt.Sprintf("%v: the credentials are not accepted", err)
	case spoken && status.ErrStatus.Code == http.StatusForbidden:
		return clip(err.Error()) + ": the role does not allow it"
	case spoken || unheard || doubt:
		return clip(err.Error())
	}
	return "the answer is not understood: " + clip(err.Error())
}

// answerError says what is wrong with an answer that was understood.
type answerError string

func (e answerError) Error() string { return string(e) }
