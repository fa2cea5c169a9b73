package watch

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"kube-ipvs-proxy/proxier/plan"
)

// answerFunc takes requests over; see apiServer.
type answerFunc = func(w http.ResponseWriter, r *http.Request, resource string, watching bool) bool

func (s *apiServer) answers(f answerFunc) { s.set(func(s *apiServer) { s.answer = f }) }

// only takes over the requests for one resource.
func only(resource string, do func(w http.ResponseWriter, r *http.Request)) answerFunc {
	return func(w http.ResponseWriter, r *http.Request, of string, _ bool) bool {
		if of == resource {
			do(w, r)
		}
		return of == resource
	}
}

// forbidden answers as an API server does when a role is missing.
func (s *apiServer) forbidden(w http.ResponseWriter, r *http.Request) {
	verb := "list"
	if r.URL.Query().Get("watch") != "" {
		verb = "watch"
	}
	s.fail(w, http.StatusForbidden, metav1.StatusReasonForbidden, "User \"x\" cannot "+verb+" this")
}

func (w *world) state(k kind) ResourceState { return w.api.States()[k] }

func TestAPINothingBeforeBothLists(t *testing.T) {
	for _, missing := range []string{"services", "endpointslices"} {
		t.Run(missing, func(t *testing.T) {
			w := newWorld(t).small()
			w.server.answers(only(missing, w.server.forbidden))
			w.begin(quick(), w.url)
			w.wait("report", func() bool { return len(w.reports("cannot list")) == 1 })
			w.wait("other lists", func() bool {
				n := 0
				for _, s := range w.api.States() {
					if s.Listed {
						n++
					}
				}
				return n == 2
			})
			w.wait("attempts", func() bool { return w.server.count("list "+missing) >= 3 })
			if d := w.api.Drain(); w.api.Synced() || d.All || len(d.Services) > 0 {
				t.Errorf("synced %v, dirty %+v", w.api.Synced(), d)
			}
			told := w.reports("cannot")
			if len(told) != 1 || !strings.Contains(told[0].String(), missing) {
				t.Errorf("told %v, want one of %s", told, missing)
			}
			w.server.answers(nil)
			w.wait("synced", w.api.Synced)
			w.wait("recovered", func() bool {
				w.mu.Lock()
				defer w.mu.Unlock()
				return slices.Equal(w.recovered, []string{missing})
			})
			if p := w.api.Problems(); len(p) > 0 {
				t.Errorf("problems are left: %v", p)
			}
		})
	}
}

func TestAPIWithoutRightForNodes(t *testing.T) {
	w := newWorld(t).small()
	w.server.answers(only("nodes", w.server.forbidden))
	times := quick()
	times.node = 50 * time.Millisecond
	w.follow(times)
	w.wantEndpoints("web", "10.244.1.10", "10.244.2.10")
	w.server.put(apiSlice("web-1", "web", "10.244.1.10"))
	w.wantDirty("web")
	w.wait("report", func() bool { return len(w.reports("nodes of the API server")) > 0 })
	w.wait("attempts", func() bool { return w.state(kindNode).Failures >= 4 })
	if told := w.reports("nodes of the API server"); len(told) != 1 {
		t.Errorf("told %v", told)
	}
	w.server.answers(nil)
	w.wait("Node", func() bool { _, ok := w.api.Node(); return ok })
}

// say answers with a text.
func say(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

// garbage are answers that no API server gives.
var garbage = map[string]func(w http.ResponseWriter){
	"no JSON":             func(w http.ResponseWriter) { say(w, "<html>It works!</html>") },
	"HTML, said to be so": func(w http.ResponseWriter) { w.Header().Set("Content-Type", "text/html"); say(w, "<p>") },
	"empty":               func(http.ResponseWriter) {},
	"no kind":             func(w http.ResponseWriter) { say(w, "{}") },
	"another kind": func(w http.ResponseWriter) {
		say(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"9"}}`)
	},
	"no version": func(w http.ResponseWriter) { say(w, `{"kind":"ServiceList","apiVersion":"v1","items":[]}`) },
	"protobuf, cut off": func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf")
		say(w, "k8s\x00\x0a\x20")
	},
	"status 500": func(w http.ResponseWriter) { http.Error(w, "boom", http.StatusInternalServerError) },
	"another object in the watch": func(w http.ResponseWriter) {
		say(w, `{"type":"DELETED","object":{"kind":"Node","apiVersion":"v1","metadata":{"name":"web","namespace":"default","resourceVersion":"999"}}}`)
	},
}

func TestAPIGarbage(t *testing.T) {
	for name, answer := range garbage {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).small().follow(quick())
			w.server.answers(only("services", func(rw http.ResponseWriter, _ *http.Request) {
				if rw.Header().Set("Content-Type", "application/json"); name == "empty" {
					rw.Header().Del("Content-Type")
				}
				answer(rw)
			}))
			before := w.server.count("list services")
			w.server.set(func(s *apiServer) { s.oldest = 1 << 30 })
			w.server.forget()
			w.breakWatches()
			w.wait("attempts", func() bool { return w.server.count("list services") >= before+3 })
			t.Log(w.reports(""))
			if told := w.reports("services of the API server"); len(told) == 0 || len(told) > 3 {
				t.Errorf("told %v", told)
			}
			if s, _ := w.api.Service(plan.ServiceName{Namespace: "default", Name: "web"}); s == nil || !w.api.Synced() || w.api.Drain().All {
				t.Error("the Service was lost")
			}
			w.server.answers(nil)
			w.server.set(func(s *apiServer) { s.oldest = 0 })
			w.server.put(apiService("next", "10.96.0.3"))
			w.wait("recovery", func() bool {
				s, _ := w.api.Service(plan.ServiceName{Namespace: "default", Name: "next"})
				return s != nil && w.state(kindService).Problem == ""
			})
		})
	}
}

// breakWatches closes the connections of the server.
func (w *world) breakWatches() {
	w.server.mu.Lock()
	defer w.server.mu.Unlock()
	w.server.closeConnections()
}

func TestAPIOutage(t *testing.T) {
	w := newWorld(t).small()
	relay := newRelay(t, strings.TrimPrefix(w.url, "http://"))
	w.begin(quick(), "http://"+relay.addr)
	w.wait("first read", w.api.Synced)
	w.api.Drain()
	relay.refuse()
	w.wait("reports", func() bool {
		for _, s := range w.api.States() {
			if s.Problem == "" {
				return false
			}
		}
		return true
	})
	if d := w.api.Drain(); d.All || len(d.Services) > 0 || !w.api.Synced() {
		t.Errorf("an outage makes %+v dirty", d)
	}
	w.wantEndpoints("web", "10.244.1.10", "10.244.2.10")
	// What happens meanwhile is heard of afterwards, deletions too, although the
	// server has forgotten the history.
	w.server.put(apiService("next", "10.96.0.3"))
	w.server.remove(apiSlice("web-1", "web"))
	w.server.forget()
	relay.serve()
	dirty := map[string]bool{}
	w.wait("changes", func() bool {
		for _, n := range w.api.Drain().Services {
			dirty[n.Name] = true
		}
		return len(dirty) >= 2
	})
	if !dirty["next"] || !dirty["web"] || len(dirty) != 2 {
		t.Errorf("dirty are %v", dirty)
	}
	w.wantEndpoints("web")
	for _, resource := range []string{"services", "endpointslices", "nodes"} {
		if told := w.reports(resource + " of the API server"); len(told) == 0 || len(told) > 3 {
			t.Errorf("told of %s: %v", resource, told)
		}
	}
}

func TestAPISilentWatch(t *testing.T) {
	w := newWorld(t).small()
	times := quick()
	times.silence, times.begin = 200*time.Millisecond, 200*time.Millisecond
	w.follow(times)
	// From now on watches hang: the connection lives, and nothing comes.
	hang := true
	w.server.answers(func(rw http.ResponseWriter, r *http.Request, _ string, watching bool) bool {
		w.server.mu.Lock()
		now := hang
		w.server.mu.Unlock()
		if now && watching {
			rw.(http.Flusher).Flush()
			<-r.Context().Done()
		}
		return now && watching
	})
	w.wait("renewed", func() bool { return w.state(kindSlice).Renewed >= 2 })
	w.wantEndpoints("web", "10.244.1.10", "10.244.2.10")
	w.server.put(apiSlice("web-1", "web", "10.244.1.10"))
	w.server.set(func(*apiServer) { hang = false })
	w.wait("change", func() bool { return len(w.endpoints("web")) == 1 })
	if len(w.fresh) > 0 {
		t.Errorf("told %v", w.fresh)
	}
}

func TestAPIBookmarksKeepWatch(t *testing.T) {
	w := newWorld(t).small()
	w.server.set(func(s *apiServer) { s.bookmarks = 20 * time.Millisecond })
	times := quick()
	times.silence = 2 * time.Second
	w.follow(times)
	first := w.state(kindService).Seen
	w.wait("bookmarks", func() bool { return w.state(kindService).Seen.Sub(first) > 3*time.Second })
	for _, s := range w.api.States() {
		if s.Renewed > 0 || s.Failures > 0 {
			t.Errorf("state is %+v", s)
		}
	}
	if n := w.server.count("stream services") + w.server.count("watch services"); n != 1 {
		t.Errorf("%d watches of services, want 1", n)
	}
}

func TestAPIDropsEachConnection(t *testing.T) {
	w := newWorld(t).small()
	relay := newRelay(t, strings.TrimPrefix(w.url, "http://"))
	relay.life.Store(int64(150 * time.Millisecond))
	times := quick()
	times.steady = 5 * time.Second
	w.begin(times, "http://"+relay.addr)
	w.wait("first read", w.api.Synced)
	w.wait("report", func() bool { return len(w.reports("endpointslices of the API server")) > 0 })
	w.server.put(apiSlice("web-1", "web", "10.244.1.10"))
	w.wait("change", func() bool { return len(w.endpoints("web")) == 1 })
	w.wait("attempts", func() bool { return w.state(kindSlice).Failures >= 5 })
	if told := w.reports("endpointslices of the API server"); len(told) > 2 {
		t.Errorf("told %v", told)
	}
}

func TestAPIWithoutStreams(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		w := newWorld(t).small()
		w.server.set(func(s *apiServer) { s.refuse = true })
		w.follow(quick())
		w.server.put(apiSlice("web-1", "web", "10.244.1.10"))
		w.wantDirty("web")
		if len(w.fresh) > 0 {
			t.Errorf("told %v", w.fresh)
		}
	})
	t.Run("never ending", func(t *testing.T) {
		w := newWorld(t).small()
		w.server.set(func(s *apiServer) { s.mute = true })
		times := quick()
		times.begin = 100 * time.Millisecond
		w.follow(times)
		w.server.put(apiSlice("web-1", "web", "10.244.1.10"))
		w.wantDirty("web")
		if len(w.fresh) > 0 {
			t.Errorf("told %v", w.fresh)
		}
	})
}

// TestAPIDeletedBetweenListAndWatch: an object of the list that is gone before the watch
// begins is gone, whether the server knows that history or not.
func TestAPIDeletedBetweenListAndWatch(t *testing.T) {
	for _, forgetful := range []bool{false, true} {
		w := newWorld(t).small()
		w.server.put(apiService("other", "10.96.0.7"))
		w.server.set(func(s *apiServer) { s.refuse = true }) // a list, then a watch
		var once sync.Once
		removed := make(chan struct{})
		w.server.answers(func(_ http.ResponseWriter, _ *http.Request, resource string, watching bool) bool {
			if watching && resource == "services" && w.server.count("list services") > 0 {
				once.Do(func() {
					w.server.remove(apiService("web", "10.96.0.1"))
					if forgetful {
						w.server.forget()
					}
					close(removed)
				})
			}
			return false
		})
		w.begin(quick(), w.url)
		<-removed
		w.wait("the end of the Service", func() bool {
			s, _ := w.api.Service(plan.ServiceName{Namespace: "default", Name: "web"})
			return w.api.Synced() && s == nil
		})
		if s, _ := w.api.Service(plan.ServiceName{Namespace: "default", Name: "other"}); s == nil {
			t.Errorf("forgetful %t: the other Service was lost", forgetful)
		}
		if told := w.reports(""); len(told) > 0 {
			t.Errorf("forgetful %t: told %v", forgetful, told)
		}
	}
}

func TestAPISeveralServers(t *testing.T) {
	w := newWorld(t).small()
	first := newRelay(t, strings.TrimPrefix(w.url, "http://"))
	w.begin(quick(), "http://"+first.addr, w.url)
	w.wait("first read", w.api.Synced)
	w.api.Drain()
	start := time.Now()
	first.refuse()
	w.server.put(apiSlice("web-1", "web", "10.244.1.10"))
	w.wait("change", func() bool { return len(w.endpoints("web")) == 1 })
	t.Logf("change seen %v after the first server went", time.Since(start))
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestAPIServerThatNeverAnswers(t *testing.T) {
	w := newWorld(t).small()
	hung := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(func() { hung.CloseClientConnections(); hung.Close() })
	c := client(t, hung.URL, w.url)
	c.servers.answer = 200 * time.Millisecond
	w.with(c, quick())
	w.wait("first read", w.api.Synced)
}

func TestAPICertificate(t *testing.T) {
	s := newAPIServer(t)
	server := httptest.NewUnstartedServer(s)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	w := &world{t: t, server: s, url: server.URL}
	w.begin(quick(), w.url)
	w.wait("report", func() bool { return len(w.reports("certificate")) == 3 })
	w.wait("attempts", func() bool { return w.state(kindNode).Failures >= 3 })
	if told := w.reports(""); len(told) != 3 {
		t.Errorf("told %v, want one for each resource", told)
	}
}

// TestAPIDeadConnection has a connection that loses all packets, so that only pings
// of HTTP/2 can find it.
func TestAPIDeadConnection(t *testing.T) {
	t.Setenv("HTTP2_READ_IDLE_TIMEOUT_SECONDS", "1")
	t.Setenv("HTTP2_PING_TIMEOUT_SECONDS", "1")
	s := newAPIServer(t)
	server := httptest.NewUnstartedServer(s)
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	w := (&world{t: t, server: s}).small()
	relay := newRelay(t, server.Listener.Addr().String())
	c, err := NewClient(&rest.Config{Host: "https://" + relay.addr, QPS: -1, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	w.with(c, quick())
	w.wait("first read", w.api.Synced)
	start := time.Now()
	relay.stall()
	s.put(apiSlice("web-1", "web", "10.244.1.10"))
	w.wait("change", func() bool { return len(w.endpoints("web")) == 1 })
	t.Logf("change seen %v after the connection died", time.Since(start))
}

// relay passes connections on to an address, and can misbehave.
type relay struct {
	t      *testing.T
	addr   string
	target string
	life   atomic.Int64 // nanoseconds after which a connection is closed; zero: never

	mu       sync.Mutex
	listener net.Listener
	conns    map[net.Conn]bool
	stalled  map[net.Conn]bool
}

func newRelay(t *testing.T, target string) *relay {
	r := &relay{t: t, target: target, addr: "127.0.0.1:0", conns: map[net.Conn]bool{}, stalled: map[net.Conn]bool{}}
	r.serve()
	t.Cleanup(r.refuse)
	return r
}

// serve listens, at the address that it had before.
func (r *relay) serve() {
	l, err := net.Listen("tcp4", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listener, r.addr = l, l.Addr().String()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go r.pass(c)
		}
	}()
}

// refuse closes all connections and takes no new ones.
func (r *relay) refuse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.listener.Close()
	for c := range r.conns {
		_ = c.Close()
	}
}

// stall makes the connections that there are lose everything, unnoticed.
func (r *relay) stall() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		r.stalled[c] = true
	}
}

func (r *relay) pass(c net.Conn) {
	up, err := net.Dial("tcp4", r.target)
	if err != nil {
		_ = c.Close()
		return
	}
	r.mu.Lock()
	r.conns[c], r.conns[up] = true, true
	r.mu.Unlock()
	if life := time.Duration(r.life.Load()); life > 0 {
		time.AfterFunc(life, func() { _ = c.Close(); _ = up.Close() })
	}
	go r.copy(up, c)
	r.copy(c, up)
	_ = c.Close()
	_ = up.Close()
}

func (r *relay) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		r.mu.Lock()
		lost := r.stalled[from]
		r.mu.Unlock()
		if lost {
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

func TestConnectErrors(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	config := func(server string) string {
		return "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '" + server +
			"'}}]\ncontexts: [{name: c, context: {cluster: c, user: u}}]\nusers: [{name: u, user: {token: t}}]\n"
	}
	for _, test := range []struct {
		name string
		c    Connection
		want []string // parts of the error; none: no error
	}{
		{"missing file", Connection{Kubeconfig: dir + "/none"}, []string{"kubeconfig", dir + "/none", "no such file"}},
		{"no YAML", Connection{Kubeconfig: file("broken", ":\n\t-")}, []string{"kubeconfig " + dir + "/broken"}},
		{"no server", Connection{Kubeconfig: file("empty", "apiVersion: v1\nkind: Config\n")}, []string{"kubeconfig " + dir + "/empty"}},
		{"nothing", Connection{}, []string{"--master", "--manifests", "kubeconfig"}},
		{"master", Connection{Master: "https://127.0.0.1:1"}, nil},
		{"scheme", Connection{Master: "ftp://127.0.0.1:1"}, []string{"ftp://", "https://"}},
		{"mixed schemes", Connection{Master: "https://127.0.0.1:1,http://127.0.0.1:2"}, []string{"http://127.0.0.1:2", "scheme"}},
		{"several in the file", Connection{Kubeconfig: file("several", config("https://127.0.0.1:1,https://127.0.0.1:2"))}, nil},
		{"several without ports", Connection{Kubeconfig: file("portless", config("https://127.0.0.1,https://127.0.0.2"))}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, err := Connect(test.c)
			if (err != nil) != (len(test.want) > 0) {
				t.Fatalf("error is %v", err)
			}
			for _, part := range test.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error is %q, want %q in it", err, part)
				}
			}
			if err == nil && strings.HasPrefix(test.name, "several") && len(c.servers.urls) != 2 {
				t.Errorf("servers are %v", c.servers.urls)
			}
		})
	}
}
