package watch

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// ResourceState is how the reading of one resource goes.
type ResourceState struct {
	// Resource is services, endpointslices or nodes.
	Resource string
	// Listed: it was read completely at least once.
	Listed bool
	// Seen is when the API server was last heard of it: an event, a bookmark or a
	// complete list. Zero: never.
	Seen time.Time
	// Problem says why it cannot be read now; empty when it can.
	Problem string
	// Changes counts objects that came, went or became different; Failures what went
	// wrong; Renewed the watches that were given up because they were silent.
	Changes, Failures, Renewed uint64
}

// apiTimes are the times that a feed lives by.
type apiTimes struct {
	// silence is how long a watch may say nothing. The API server sends a bookmark
	// each minute or so.
	silence time.Duration
	// begin is how long the stream of the objects that exist may say nothing. Some
	// servers do not know how to end it; they are asked for a list then.
	begin time.Duration
	// list bounds one list.
	list time.Duration
	// steady is how long a watch must live before troubles count as over.
	steady time.Duration
	// denied is how long an answer that something is forbidden is not told: an API
	// server that just started knows no roles yet.
	denied time.Duration
	// node is how long the first read waits for the Node.
	node time.Duration
	// retry is the first wait after a failure, which doubles up to maxRetry; half as
	// much is added at random. An API server that is back shall be found soon.
	retry, maxRetry time.Duration
}

// defaultTimes are those for an API server over TLS.
func defaultTimes() apiTimes {
	return apiTimes{
		silence: 3 * time.Minute, begin: 10 * time.Second, list: 2 * time.Minute, steady: 10 * time.Second, denied: 3 * time.Second,
		node: 30 * time.Second, retry: 500 * time.Millisecond, maxRetry: 10 * time.Second,
	}
}

// silencePlain is the silence that a connection without pings may have.
const silencePlain = 45 * time.Second

// maxShort is how many watches in a row may end as soon as they began.
const maxShort = 3

// ahead is how many events of a watch may be read before they are taken in.
const ahead = 32

// feed reads one resource: it does the requests of a reflector and keeps an eye on
// their fate.
type feed struct {
	client    *rest.RESTClient
	servers   *servers
	resource  string
	label     string
	field     string
	item      runtime.Object // of the type of its objects
	list      runtime.Object // of the type of its lists
	times     apiTimes
	problem   func(Problem)
	recovered func(resource string)

	mu    sync.Mutex
	state ResourceState
	// told are the troubles reported since all was well.
	told map[string]bool
	// denied is the first time since then that something was forbidden.
	denied time.Time
	// short counts watches in a row that ended as soon as they began.
	short int
}

// listOnce answers a reflector's list.
func (f *feed) listOnce(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.times.list, answerError(fmt.Sprintf("no complete answer within %v", f.times.list)))
	defer cancel()
	o.LabelSelector, o.FieldSelector = f.label, f.field
	list, err := f.client.Get().Resource(f.resource).VersionedParams(&o, metav1.ParameterCodec).Do(ctx).Get()
	if err == nil {
		err = f.check(list)
	} else if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		f.failed(ctx, err)
		return nil, err
	}
	f.seen()
	return list, nil
}

// check refuses a list that no API server gives: what is missing in a list is gone.
func (f *feed) check(list runtime.Object) error {
	if reflect.TypeOf(list) != reflect.TypeOf(f.list) {
		return answerError(fmt.Sprintf("the answer is a %T, not a %T", list, f.list))
	}
	m, err := meta.ListAccessor(list)
	if err != nil {
		return answerError("the answer is no list: " + err.Error())
	}
	if m.GetResourceVersion() == "" {
		return answerError("the answer has no resourceVersion, so it is no list of an API server")
	}
	return nil
}

// open answers a reflector's watch. A stream that begins with all objects is a list
// by another way; when it fails, the reflector asks for a list, which will tell why.
func (f *feed) open(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.LabelSelector, o.FieldSelector, o.Watch = f.label, f.field, true
	initial := o.SendInitialEvents != nil && *o.SendInitialEvents
	server := f.servers.current.Load()
	w, err := f.client.Get().Resource(f.resource).VersionedParams(&o, metav1.ParameterCodec).Watch(ctx)
	if err != nil {
		if !initial || utilnet.IsConnectionRefused(err) || apierrors.IsTooManyRequests(err) {
			f.failed(ctx, err)
		}
		return nil, err
	}
	s := &stream{
		feed: f, inner: w, out: make(chan watch.Event, ahead), stop: make(chan struct{}),
		server: server, initial: initial, begun: time.Now(),
	}
	go s.run(ctx)
	return s, nil
}

// failed notes a trouble, and reports it unless that was done since all was well.
func (f *feed) failed(ctx context.Context, err error) {
	if ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return // the end, or a state that is too old, which a reflector handles
	}
	reason, early := reasonOf(err), false
	f.mu.Lock()
	f.state.Failures++
	if apierrors.IsForbidden(err) {
		if f.denied.IsZero() {
			f.denied = time.Now()
		}
		early = time.Since(f.denied) < f.times.denied
	}
	f.mu.Unlock()
	if !early {
		f.trouble(reason)
	}
}

func (f *feed) trouble(reason string) {
	f.mu.Lock()
	f.state.Problem = reason
	key := digits.ReplaceAllString(reason, "#")
	again := f.told[key] || len(f.told) >= maxProblems
	if f.told == nil {
		f.told = make(map[string]bool)
	}
	f.told[key] = true
	f.mu.Unlock()
	if !again {
		f.problem(Problem{Object: f.object(), Reason: reason + "; trying again, and all that was read stays"})
	}
}

// object names the resource in problems.
func (f *feed) object() string { return f.resource + " of the API server" }

// seen notes that the API server was heard.
func (f *feed) seen() {
	f.mu.Lock()
	f.state.Seen = time.Now()
	f.mu.Unlock()
}

// well notes that a watch has lived for a while.
func (f *feed) well() {
	f.mu.Lock()
	over := f.state.Problem != ""
	f.state.Problem, f.told, f.short, f.denied = "", nil, 0, time.Time{}
	f.mu.Unlock()
	if over {
		f.recovered(f.resource)
	}
}

// ended notes that a watch ended that had lived for so long. One is normal: an API
// server that restarts.
func (f *feed) ended(lived time.Duration) {
	if lived >= f.times.steady {
		return
	}
	f.mu.Lock()
	f.short++
	if f.short < maxShort {
		f.mu.Unlock()
		return
	}
	known := f.state.Problem != "" // and this may be how it shows
	f.state.Failures++
	f.mu.Unlock()
	if !known {
		f.trouble("each watch ends seconds after it began")
	}
}

// present returns a copy of the state.
func (f *feed) present() ResourceState {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state
	s.Resource = f.resource
	return s
}

// note changes the state.
func (f *feed) note(change func(*ResourceState)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.state)
}
