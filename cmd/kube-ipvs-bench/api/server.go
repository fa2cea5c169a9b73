// Package api is an API server in memory for proxies: lists and watches of Services,
// EndpointSlices and Nodes, in protobuf and JSON, encoded before anybody asks. It
// believes everybody and keeps no selectors: whatever it has is for every client.
package api

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
)

// Resources that are served; all others are not found.
const (
	services = "services"
	slices   = "endpointslices"
	nodes    = "nodes"
	cidrs    = "servicecidrs"
)

// groups are the API groups of the resources.
var groups = map[string]schema.GroupVersion{
	services: corev1.SchemeGroupVersion, nodes: corev1.SchemeGroupVersion,
	slices: discoveryv1.SchemeGroupVersion, cidrs: networkingv1.SchemeGroupVersion,
}

// Server is the API server of one cluster. It may be used from several goroutines.
type Server struct {
	codecs serializer.CodecFactory

	mu      sync.Mutex
	version int
	objects map[string][]runtime.Object // by resource
	place   map[string]int              // of a resource/namespace/name in objects
	history []change
	news    chan struct{} // closed at each change
	ready   Prepared
	read    map[string]time.Time
	refused map[string]bool
	done    chan struct{}
}

// change is an entry of the history.
type change struct {
	version  int
	resource string
	event    watch.Event
}

// key names an answer that is kept encoded.
type key struct {
	resource, media string
	stream          bool
}

// New makes a server without objects.
func New() *Server {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, discoveryv1.AddToScheme, networkingv1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // the types are compiled in
		}
	}
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	return &Server{
		codecs: serializer.NewCodecFactory(scheme), version: 1000, objects: map[string][]runtime.Object{},
		place: map[string]int{}, news: make(chan struct{}), ready: Prepared{}, read: map[string]time.Time{},
		refused: map[string]bool{}, done: make(chan struct{}),
	}
}

// Put creates or changes objects.
func (s *Server) Put(objects ...runtime.Object) { s.change(watch.Modified, objects) }

// Delete removes objects.
func (s *Server) Delete(objects ...runtime.Object) { s.change(watch.Deleted, objects) }

// change takes changes in and tells all watches at once.
func (s *Server) change(kind watch.EventType, objects []runtime.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range objects {
		resource, m := resourceOf(o)
		name := resource + "/" + m.GetNamespace() + "/" + m.GetName()
		at, there := s.place[name]
		s.version++
		m.SetResourceVersion(strconv.Itoa(s.version))
		event := watch.Event{Type: kind, Object: o}
		switch {
		case kind == watch.Deleted:
			s.remove(resource, name, at)
		case there:
			s.objects[resource][at] = o
		default:
			event.Type = watch.Added
			s.place[name] = len(s.objects[resource])
			s.objects[resource] = append(s.objects[resource], o)
		}
		s.history = append(s.history, change{s.version, resource, event})
	}
	clear(s.ready)
	close(s.news)
	s.news = make(chan struct{})
}

// remove moves the last object into the place of the one that goes.
func (s *Server) remove(resource, name string, at int) {
	all := s.objects[resource]
	last := len(all) - 1
	_, m := resourceOf(all[last])
	s.place[resource+"/"+m.GetNamespace()+"/"+m.GetName()] = at
	all[at] = all[last]
	s.objects[resource] = all[:last]
	delete(s.place, name)
}

func resourceOf(o runtime.Object) (string, metav1.Object) {
	switch o := o.(type) {
	case *corev1.Service:
		return services, o
	case *discoveryv1.EndpointSlice:
		return slices, o
	case *corev1.Node:
		return nodes, o
	}
	panic(fmt.Sprintf("%T is not served", o))
}

// Prepared are encoded answers, which servers with the same objects, put in the same
// order, can share.
type Prepared map[key][]byte

// Prepare encodes all answers to first requests in protobuf, so that no client waits
// for it, and forgets the history and when something was read. What known has is not
// encoded again; the answers are returned.
func (s *Server) Prepare(known Prepared) (Prepared, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.history = nil
	clear(s.read)
	maps.Copy(s.ready, known)
	for resource := range groups {
		for _, stream := range []bool{true, false} {
			if _, err := s.first(key{resource, runtime.ContentTypeProtobuf, stream}); err != nil {
				return nil, err
			}
		}
	}
	return maps.Clone(s.ready), nil
}

// Read is when the last byte of both Services and EndpointSlices had gone to a client
// for the first time since Prepare; false before that.
func (s *Server) Read() (time.Time, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, okA := s.read[services]
	b, okB := s.read[slices]
	if b.After(a) {
		a = b
	}
	return a, okA && okB
}

// Refused lists what was asked for and is not served.
func (s *Server) Refused() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for what := range s.refused {
		out = append(out, what)
	}
	return out
}

// Serve answers on the listener until Close.
func (s *Server) Serve(l net.Listener) (stop func()) {
	server := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // ends with Close
	return func() { _ = server.Close() }
}

// Close ends all watches.
func (s *Server) Close() { close(s.done) }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	last := parts[len(parts)-1]
	q := r.URL.Query()
	switch {
	case strings.Contains(r.URL.Path, "/events"):
		body, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		w.Header().Set("Content-Type", r.Header.Get("Content-Type"))
		w.WriteHeader(http.StatusCreated)
		_, _ = w.Write(body)
	case r.Method == http.MethodGet && groups[last].Version != "":
		if watching, _ := strconv.ParseBool(q.Get("watch")); watching {
			s.watch(w, r, last, q.Get("sendInitialEvents") == "true")
			return
		}
		s.list(w, r, last)
	case r.Method == http.MethodGet && len(parts) > 1 && parts[len(parts)-2] == nodes:
		s.get(w, r, nodes, last)
	default:
		s.fail(w, r, http.StatusNotFound, metav1.StatusReasonNotFound)
	}
}

// fail answers with a Status.
func (s *Server) fail(w http.ResponseWriter, r *http.Request, code int, reason metav1.StatusReason) {
	s.mu.Lock()
	s.refused[r.Method+" "+r.URL.Path] = true
	s.mu.Unlock()
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(code), Reason: reason, Message: r.URL.Path + " is not served by the benchmark",
	})
}
