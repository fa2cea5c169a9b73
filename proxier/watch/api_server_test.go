package watch

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	restwatch "k8s.io/client-go/rest/watch"
)

// apiServer is a small API server: lists and watches with a history, in JSON and
// protobuf, and all that can go wrong with one.
type apiServer struct {
	t      testing.TB
	codecs serializer.CodecFactory

	mu      sync.Mutex
	version int
	oldest  int // watches from before this version are told that it is too old
	objects map[string]map[string]runtime.Object
	history []change
	news    chan struct{} // closed at each change
	// answer takes a request over; true when it did.
	answer func(w http.ResponseWriter, r *http.Request, resource string, watching bool) bool
	// mute: streams of all objects do not end, as of a server that does not know them;
	// refuse: they are refused.
	mute, refuse bool
	bookmarks    time.Duration
	asked        []string // "list services", "watch nodes", "stream services"
	accept       map[string]bool
	events       []*eventsv1.Event
	patches      []string

	closeConnections func()
}

// change is an entry of the history.
type change struct {
	version  int
	resource string
	event    watch.Event
}

func newAPIServer(t testing.TB) *apiServer {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, eventsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return &apiServer{
		t: t, codecs: serializer.NewCodecFactory(scheme), version: 100, objects: map[string]map[string]runtime.Object{},
		news: make(chan struct{}), bookmarks: time.Hour, accept: map[string]bool{},
	}
}

// start serves without TLS until the test ends.
func (s *apiServer) start() *httptest.Server {
	server := httptest.NewServer(s)
	s.closeConnections = server.CloseClientConnections
	s.t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server
}

func resourceOf(o runtime.Object) (string, metav1.Object) {
	switch o := o.(type) {
	case *corev1.Service:
		return "services", o
	case *discoveryv1.EndpointSlice:
		return "endpointslices", o
	case *corev1.Node:
		return "nodes", o
	}
	panic(fmt.Sprintf("%T", o))
}

// put creates or changes objects.
func (s *apiServer) put(objects ...runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		o = o.DeepCopyObject()
		resource, m := resourceOf(o)
		if s.objects[resource] == nil {
			s.objects[resource] = map[string]runtime.Object{}
		}
		key, kind := m.GetNamespace()+"/"+m.GetName(), watch.Added
		if s.objects[resource][key] != nil {
			kind = watch.Modified
		}
		s.log(resource, kind, o, m)
		s.objects[resource][key] = o
	}
}

// remove deletes an object.
func (s *apiServer) remove(o runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o = o.DeepCopyObject()
	resource, m := resourceOf(o)
	delete(s.objects[resource], m.GetNamespace()+"/"+m.GetName())
	s.log(resource, watch.Deleted, o, m)
}

func (s *apiServer) log(resource string, kind watch.EventType, o runtime.Object, m metav1.Object) {
	s.version++
	m.SetResourceVersion(strconv.Itoa(s.version))
	s.history = append(s.history, change{s.version, resource, watch.Event{Type: kind, Object: o}})
	close(s.news)
	s.news = make(chan struct{})
}

// forget makes the server know nothing of changes up to now, as after a restart.
func (s *apiServer) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.oldest, s.history = s.version, nil
}

// set changes how the server behaves.
func (s *apiServer) set(change func(*apiServer)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// count tells how often something was asked.
func (s *apiServer) count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, a := range s.asked {
		if a == what {
			n++
		}
	}
	return n
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/events") || strings.Contains(r.URL.Path, "/events/") {
		s.takeEvent(w, r)
		return
	}
	resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	q := r.URL.Query()
	watching, streaming := q.Get("watch") != "", q.Get("sendInitialEvents") == "true"
	what := "list "
	switch {
	case streaming:
		what = "stream "
	case watching:
		what = "watch "
	}
	s.mu.Lock()
	s.asked = append(s.asked, what+resource)
	s.accept[r.Header.Get("Accept")] = true
	answer, refuse := s.answer, s.refuse
	s.mu.Unlock()
	switch {
	case answer != nil && answer(w, r, resource, watching):
	case streaming && refuse:
		s.fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "resourceVersionMatch is forbidden for watch")
	case watching:
		s.watch(w, r, resource, streaming)
	default:
		s.list(w, r, resource)
	}
}

// fail answers with a Status.
func (s *apiServer) fail(w http.ResponseWriter, code int, reason metav1.StatusReason, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: message,
	})
}

// encoder returns the serializer that the client likes best.
func (s *apiServer) encoder(r *http.Request, resource string) (runtime.SerializerInfo, runtime.Encoder) {
	for kind := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		kind, _, _ = strings.Cut(strings.TrimSpace(kind), ";")
		info, ok := runtime.SerializerInfoForMediaType(s.codecs.SupportedMediaTypes(), kind)
		if !ok {
			continue
		}
		gv := corev1.SchemeGroupVersion
		if resource == "endpointslices" {
			gv = discoveryv1.SchemeGroupVersion
		}
		return info, s.codecs.WithoutConversion().EncoderForVersion(info.Serializer, gv)
	}
	panic("no encoding for " + r.Header.Get("Accept"))
}

// list answers with all objects.
func (s *apiServer) list(w http.ResponseWriter, r *http.Request, resource string) {
	s.mu.Lock()
	list := s.present(resource)
	s.mu.Unlock()
	info, encoder := s.encoder(r, resource)
	w.Header().Set("Content-Type", info.MediaType)
	if err := encoder.Encode(list, w); err != nil {
		s.t.Logf("list %s: %v", resource, err)
	}
}

func (s *apiServer) present(resource string) runtime.Object {
	meta := metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}
	switch resource {
	case "services":
		list := &corev1.ServiceList{ListMeta: meta}
		for _, o := range s.objects[resource] {
			list.Items = append(list.Items, *o.(*corev1.Service))
		}
		return list
	case "endpointslices":
		list := &discoveryv1.EndpointSliceList{ListMeta: meta}
		for _, o := range s.objects[resource] {
			list.Items = append(list.Items, *o.(*discoveryv1.EndpointSlice))
		}
		return list
	}
	list := &corev1.NodeList{ListMeta: meta}
	for _, o := range s.objects[resource] {
		list.Items = append(list.Items, *o.(*corev1.Node))
	}
	return list
}

// empty is a new object of a resource.
func empty(resource string) (runtime.Object, metav1.Object) {
	switch resource {
	case "services":
		o := &corev1.Service{}
		return o, o
	case "endpointslices":
		o := &discoveryv1.EndpointSlice{}
		return o, o
	}
	o := &corev1.Node{}
	return o, o
}

// watch sends changes until the client leaves.
func (s *apiServer) watch(w http.ResponseWriter, r *http.Request, resource string, initial bool) {
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	info, encoder := s.encoder(r, resource)
	frames := info.StreamSerializer.NewFrameWriter(w)
	// The outer object is of no group; both layers have the client's encoding.
	outer := streaming.NewEncoder(frames, s.codecs.WithoutConversion().EncoderForVersion(info.StreamSerializer.Serializer, schema.GroupVersion{Version: "v1"}))
	events := restwatch.NewEncoder(outer, encoder)
	w.Header().Set("Content-Type", info.MediaType+";stream=watch")
	flush := func() { w.(http.Flusher).Flush() }
	send := func(e watch.Event) bool { err := events.Encode(&e); flush(); return err == nil }

	s.mu.Lock()
	tooOld, now := !initial && since < s.oldest, s.version
	var objects []runtime.Object
	if initial {
		for _, o := range s.objects[resource] {
			objects = append(objects, o)
		}
		since = now
	}
	mute, bookmarks := s.mute, s.bookmarks
	s.mu.Unlock()
	if tooOld {
		s.fail(w, http.StatusGone, metav1.StatusReasonExpired, "too old resource version")
		return
	}
	flush()
	for _, o := range objects {
		if err := events.Encode(&watch.Event{Type: watch.Added, Object: o}); err != nil {
			return
		}
	}
	bookmark := func(annotations map[string]string, version int) watch.Event {
		o, m := empty(resource)
		m.SetResourceVersion(strconv.Itoa(version))
		m.SetAnnotations(annotations)
		return watch.Event{Type: watch.Bookmark, Object: o}
	}
	if initial && !mute && !send(bookmark(map[string]string{metav1.InitialEventsAnnotationKey: "true"}, since)) {
		return
	}
	for {
		s.mu.Lock()
		fresh := slices.DeleteFunc(slices.Clone(s.history), func(c change) bool { return c.version <= since || c.resource != resource })
		news := s.news
		s.mu.Unlock()
		for _, c := range fresh {
			if since = c.version; !send(c.event) {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-news:
		case <-time.After(bookmarks):
			if !send(bookmark(nil, since)) {
				return
			}
		}
	}
}

// takeEvent stores an Event or a change of one.
func (s *apiServer) takeEvent(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, r.ContentLength)
	for n := 0; n < len(body); {
		m, err := r.Body.Read(body[n:])
		if n += m; err != nil {
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &eventsv1.Event{}
	if r.Method == http.MethodPatch {
		s.patches = append(s.patches, string(body))
	} else {
		o, _, err := s.codecs.UniversalDeserializer().Decode(body, nil, e)
		if err != nil {
			s.t.Errorf("Event: %v", err)
			return
		}
		s.events = append(s.events, o.(*eventsv1.Event))
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(eventsv1.Event{TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: "events.k8s.io/v1"}})
}

// client is a client of servers.
func client(t testing.TB, hosts ...string) *Client {
	t.Helper()
	c, err := NewClient(&rest.Config{Host: strings.Join(hosts, ","), QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}
