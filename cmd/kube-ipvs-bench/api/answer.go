package api

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/streaming"
	"k8s.io/apimachinery/pkg/watch"
	restwatch "k8s.io/client-go/rest/watch"
)

// piece is how much is written at a time, so that the time of the last one says when
// a client took it and not when the kernel did.
const piece = 32 << 10

// bookmarkEvery is the time between two signs of life to a client that wants them. An API
// server sends them about once a minute; here some give up sooner, for want of TLS and
// its pings.
const bookmarkEvery = 40 * time.Second

// media is the encoding that the client likes best of those that we have.
func (s *Server) media(r *http.Request) string {
	for kind := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		kind, _, _ = strings.Cut(strings.TrimSpace(kind), ";")
		if kind == runtime.ContentTypeProtobuf {
			return kind
		}
		if kind == runtime.ContentTypeJSON {
			break
		}
	}
	return runtime.ContentTypeJSON
}

// info is the serializer of a media type, which is one of media's.
func (s *Server) info(media string) runtime.SerializerInfo {
	info, _ := runtime.SerializerInfoForMediaType(s.codecs.SupportedMediaTypes(), media)
	return info
}

func (s *Server) encoder(resource, media string) runtime.Encoder {
	return s.codecs.WithoutConversion().EncoderForVersion(s.info(media).Serializer, groups[resource])
}

// events writes events of a watch to w.
func (s *Server) events(w io.Writer, resource, media string) *restwatch.Encoder {
	info := s.info(media)
	// The outer object is of no group.
	outer := s.codecs.WithoutConversion().EncoderForVersion(info.StreamSerializer.Serializer, schema.GroupVersion{Version: "v1"})
	return restwatch.NewEncoder(streaming.NewEncoder(info.StreamSerializer.NewFrameWriter(w), outer), s.encoder(resource, media))
}

// first is the answer to a first request, encoded once for each state. The lock is
// held.
func (s *Server) first(k key) ([]byte, error) {
	if text, ok := s.ready[k]; ok {
		return text, nil
	}
	var b bytes.Buffer
	if !k.stream {
		if err := s.encoder(k.resource, k.media).Encode(s.present(k.resource), &b); err != nil {
			return nil, err
		}
	} else {
		events := s.events(&b, k.resource, k.media)
		for _, o := range s.objects[k.resource] {
			if err := events.Encode(&watch.Event{Type: watch.Added, Object: o}); err != nil {
				return nil, err
			}
		}
		if err := events.Encode(bookmark(k.resource, s.version, true)); err != nil {
			return nil, err
		}
	}
	s.ready[k] = b.Bytes()
	return s.ready[k], nil
}

// present is the list of a resource. The lock is held.
func (s *Server) present(resource string) runtime.Object {
	meta := metav1.ListMeta{ResourceVersion: strconv.Itoa(s.version)}
	switch resource {
	case services:
		list := &corev1.ServiceList{ListMeta: meta}
		for _, o := range s.objects[resource] {
			list.Items = append(list.Items, *o.(*corev1.Service)) //nolint:errcheck // resourceOf put it there
		}
		return list
	case slices:
		list := &discoveryv1.EndpointSliceList{ListMeta: meta}
		for _, o := range s.objects[resource] {
			list.Items = append(list.Items, *o.(*discoveryv1.EndpointSlice)) //nolint:errcheck // resourceOf put it there
		}
		return list
	case cidrs:
		return &networkingv1.ServiceCIDRList{ListMeta: meta}
	}
	list := &corev1.NodeList{ListMeta: meta}
	for _, o := range s.objects[resource] {
		list.Items = append(list.Items, *o.(*corev1.Node)) //nolint:errcheck // resourceOf put it there
	}
	return list
}

// bookmark says how far a watch has come; initial, that all objects were sent.
func bookmark(resource string, version int, initial bool) *watch.Event {
	meta := metav1.ObjectMeta{ResourceVersion: strconv.Itoa(version)}
	if initial {
		meta.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	var o runtime.Object = &corev1.Node{ObjectMeta: meta}
	switch resource {
	case services:
		o = &corev1.Service{ObjectMeta: meta}
	case slices:
		o = &discoveryv1.EndpointSlice{ObjectMeta: meta}
	case cidrs:
		o = &networkingv1.ServiceCIDR{ObjectMeta: meta}
	}
	return &watch.Event{Type: watch.Bookmark, Object: o}
}

// write sends an answer in pieces and notes when it had gone.
func (s *Server) write(w http.ResponseWriter, resource string, text []byte) bool {
	flush := http.NewResponseController(w)
	for from := 0; from < len(text); from += piece {
		if _, err := w.Write(text[from:min(from+piece, len(text))]); err != nil {
			return false
		}
	}
	if flush.Flush() != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.read[resource].IsZero() {
		s.read[resource] = time.Now()
	}
	return true
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, resource string) {
	media := s.media(r)
	s.mu.Lock()
	text, err := s.first(key{resource, media, false})
	s.mu.Unlock()
	if err != nil {
		s.fail(w, r, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		return
	}
	w.Header().Set("Content-Type", media)
	s.write(w, resource, text)
}

func (s *Server) get(w http.ResponseWriter, r *http.Request, resource, name string) {
	s.mu.Lock()
	at, ok := s.place[resource+"//"+name]
	var o runtime.Object
	if ok {
		o = s.objects[resource][at]
	}
	s.mu.Unlock()
	if !ok {
		s.fail(w, r, http.StatusNotFound, metav1.StatusReasonNotFound)
		return
	}
	media := s.media(r)
	w.Header().Set("Content-Type", media)
	_ = s.encoder(resource, media).Encode(o, w) // the client left
}

// watch sends changes until the client leaves or has asked for no longer.
func (s *Server) watch(w http.ResponseWriter, r *http.Request, resource string, initial bool) {
	media := s.media(r)
	since, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	seconds, _ := strconv.Atoi(r.URL.Query().Get("timeoutSeconds"))
	if seconds <= 0 {
		seconds = 3600
	}
	timeout := time.After(time.Duration(seconds) * time.Second)
	s.mu.Lock()
	var text []byte
	var err error
	if initial {
		since = s.version
		text, err = s.first(key{resource, media, true})
	}
	s.mu.Unlock()
	if err != nil {
		s.fail(w, r, http.StatusInternalServerError, metav1.StatusReasonInternalError)
		return
	}
	w.Header().Set("Content-Type", media+";stream=watch")
	if initial && !s.write(w, resource, text) {
		return
	}
	flush := http.NewResponseController(w)
	events := s.events(w, resource, media)
	var alive <-chan time.Time
	if wanted, _ := strconv.ParseBool(r.URL.Query().Get("allowWatchBookmarks")); wanted {
		tick := time.NewTicker(bookmarkEvery)
		defer tick.Stop()
		alive = tick.C
	}
	for flush.Flush() == nil {
		fresh, news := s.after(resource, since)
		for _, c := range fresh {
			since = c.version
			if events.Encode(&c.event) != nil {
				return
			}
		}
		if len(fresh) > 0 {
			continue
		}
		select {
		case <-r.Context().Done():
			return
		case <-s.done:
			return
		case <-timeout:
			return
		case <-alive:
			if events.Encode(bookmark(resource, since, false)) != nil {
				return
			}
		case <-news:
		}
	}
}

// after gives the changes of a resource that are newer, and what tells of more.
func (s *Server) after(resource string, since int) ([]change, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []change
	for i := len(s.history) - 1; i >= 0 && s.history[i].version > since; i-- {
		if s.history[i].resource == resource {
			out = append(out, s.history[i])
		}
	}
	for i, j := 0, len(out)-1; i < j; i, j = i+1, j-1 {
		out[i], out[j] = out[j], out[i]
	}
	return out, s.news
}
