//go:build kernel

package packets

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What follows is about the process on N: what it says, serves and survives.

// patient is how long an emulated machine may take for what is soon done.
const patient = time.Minute

// until waits until a condition holds.
func (s *scene) until(what string, holds func() bool) {
	s.Helper()
	for deadline := time.Now().Add(patient); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("%s: not within %v; the proxy said:\n%s", what, patient, strings.Join(said(), "\n"))
		}
	}
}

// said are the lines of the present run of the proxy of N.
func said() []string {
	lines := lab.Proxy(N).Log().Last(1000, nil)
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.HasPrefix(lines[i], "==== start") {
			return lines[i+1:]
		}
	}
	return lines
}

// logged waits for a line of the present run with all the parts.
func (s *scene) logged(parts ...string) {
	s.Helper()
	s.until("a line with "+strings.Join(parts, " and "), func() bool { return len(linesWith(parts...)) > 0 })
}

// linesWith are the lines of the present run with all the parts.
func linesWith(parts ...string) []string {
	var found []string
	for _, line := range said() {
		has := true
		for _, p := range parts {
			has = has && strings.Contains(line, p)
		}
		if has {
			found = append(found, line)
		}
	}
	return found
}

// stop ends the proxy of N; when the test ends, it runs again as before.
func (s *scene) stop() {
	s.Helper()
	s.Cleanup(func() {
		s.dumpFailure()
		if lab.Proxy(N).Running() {
			_ = lab.Proxy(N).Stop(context.Background()) // it may have ended by itself: the test knows
		}
		s.start()
		s.settle()
	})
	if err := lab.Proxy(N).Stop(context.Background()); err != nil {
		s.Fatal(err)
	}
}

func (s *scene) start(args ...string) {
	s.Helper()
	if err := lab.Proxy(N).Start(args...); err != nil {
		s.Fatal(err)
	}
}

// ends waits until the proxy of N, which was started with wrong settings or got them
// later, has ended by itself, and returns how it ended with its last words.
func (s *scene) ends() string {
	s.Helper()
	err := lab.Settle(context.Background(), N)
	for deadline := time.Now().Add(patient); err == nil && time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		err = lab.Settle(context.Background(), N)
	}
	if err == nil {
		s.Fatalf("the proxy goes on: %s", strings.Join(said(), "\n"))
	}
	return err.Error()
}

// page asks the proxy of N for a page, from N.
func (s *scene) page(at, path string) (code int, text string) {
	s.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: dialFrom(N), DisableKeepAlives: true}, Timeout: 10 * time.Second}
	r, err := client.Get("http://" + at + path)
	if err != nil {
		return 0, err.Error()
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return 0, err.Error()
	}
	return r.StatusCode, string(body)
}

// dialFrom makes connections of a host.
func dialFrom(host string) func(ctx context.Context, network, addr string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		err = lab.Host(host).Do(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, addr)
			return err
		})
		return conn, err
	}
}

// Where the proxy serves by default.
const (
	healthAt  = "127.0.0.1:10256"
	metricsAt = "127.0.0.1:10249"
)

// sum adds up all that a metric has, whatever its labels.
func (s *scene) sum(name string) float64 {
	s.Helper()
	sum := 0.0
	for _, line := range s.metrics() {
		rest, ok := strings.CutPrefix(line, name)
		if !ok || rest == "" || rest[0] != '{' && rest[0] != ' ' {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndex(rest, " ")+1:], 64)
		if err != nil {
			s.Fatal(err)
		}
		sum += value
	}
	return sum
}

// metrics are the lines of the metrics page.
func (s *scene) metrics() []string {
	s.Helper()
	code, text := s.page(metricsAt, "/metrics")
	if code != http.StatusOK {
		s.Fatalf("metrics: %d %s", code, text)
	}
	return strings.Split(text, "\n")
}

// kernel is what N's kernel has of the proxy, without what counts.
func (s *scene) kernel() string {
	s.Helper()
	var b strings.Builder
	for _, c := range [][]string{
		{"ipvsadm", "-Sn"}, {"ipset", "save"}, {"iptables-save"}, {"ip6tables-save"},
		{"ip", "-o", "address", "show", "dev", "kube-ipvs0"}, {"ip", "rule"}, {"ip", "route", "show", "table", "all"},
	} {
		for line := range strings.Lines(s.run(c[0], c[1:]...)) {
			if line[0] == '#' || slices.Contains(c, "route") && !strings.Contains(line, "table 18768") { // ours: 0x4950
				continue
			}
			if chain, _, counted := strings.Cut(line, " ["); counted && line[0] == ':' {
				line = chain + "\n"
			}
			b.WriteString(line)
		}
	}
	return b.String()
}

// same wants the kernel to be as it was.
func (s *scene) same(what, before string) {
	s.Helper()
	after := s.kernel()
	if after == before {
		return
	}
	times := map[string]int{}
	for line := range strings.Lines(after) {
		times[line]++
	}
	for line := range strings.Lines(before) {
		times[line]--
	}
	for line, n := range times {
		if n != 0 {
			s.Errorf("%s: %+d of %s", what, n, line)
		}
	}
}

func TestStatement111ManyChangesNeedFewRounds(t *testing.T) {
	s := begin(t)
	s.flags("--ipvs-min-sync-period", "1s")
	v := s.service(service{endpoints: ready(L1)})
	rounds := func() float64 { return s.sum("kube_ipvs_proxy_rounds_total") }
	before, start := rounds(), time.Now()
	for i := range 100 {
		v.endpoints = ready([]string{L1, Rm}[i%2])
		s.write(v.name(), v.objects())
	}
	s.settle()
	most := time.Since(start).Seconds() + 3
	if n := rounds() - before; n < 1 || n > most {
		t.Errorf("%v rounds in %v, want at most %.1f", n, time.Since(start), most)
	}
	s.each(func(w way) { w.from(c1).times(4).to(v.cluster(w)).reach(Rm) })
}

func TestStatement114NothingIsWrittenBeforeAllIsRead(t *testing.T) {
	s := begin(t)
	v := s.service(service{endpoints: ready(L1, Rm), loadBalancer: true, nodePort: true, externalLocal: true})
	s.stop() // from now on nothing ends a drain
	before := s.kernel()
	s.start("--manifests", "", "--master", "http://127.0.0.1:7443")
	s.logged("services of the API server")
	s.same("no API server", before)
	s.each(func(w way) { w.from(c1).times(4).to(v.cluster(w)).reach(L1, Rm) })
	// Now one that says that there are no Services, and nothing of their endpoints.
	s.serveAPI("127.0.0.1:7443")
	s.logged("endpointslices of the API server", "cannot")
	s.same("half of an API server", before)
	s.each(func(w way) { w.from(c1).times(4).to(v.cluster(w)).reach(L1, Rm) })
}

// serveAPI is an API server on N that has no Services and no Node, and lets nobody read
// EndpointSlices.
func (s *scene) serveAPI(at string) {
	s.Helper()
	const list = `{"kind":"%","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}`
	const forbidden = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"you cannot list this"}`
	kinds := map[string]string{"services": "ServiceList", "nodes": "NodeList"}
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		resource := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
		kind := kinds[resource]
		switch {
		case kind == "":
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, forbidden)
		case r.URL.Query().Get("sendInitialEvents") != "":
			w.WriteHeader(http.StatusUnprocessableEntity) // an older server
		case r.URL.Query().Get("watch") != "":
			w.WriteHeader(http.StatusOK)
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		default:
			_, _ = io.WriteString(w, strings.Replace(list, "%", kind, 1))
		}
	})
	var listener net.Listener
	if err := lab.Host(N).Do(func() (err error) { listener, err = net.Listen("tcp4", at); return err }); err != nil {
		s.Fatal(err)
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: patient}
	go func() { _ = server.Serve(listener) }()
	s.Cleanup(func() { _ = server.Close() })
}
