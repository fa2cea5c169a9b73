package health

import (
	"fmt"
	"maps"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Pages says what the metrics server shows beside the metrics. The zero value
// shows what needs nothing else.
type Pages struct {
	// BeforeMetrics is called before the metrics are shown, to bring up to date what
	// nobody tells by itself; it may be nil, and is called by several goroutines.
	BeforeMetrics func()
	// Config returns the JSON document of /configz, in kube-proxy an object with the
	// key kubeproxy.config.k8s.io. Nil: there is no such page.
	Config func() ([]byte, error)
	// Flags returns the flags and their values for /flagz. Nil: there is no such page.
	Flags func() map[string]string
	// Profiling serves /debug/pprof/ and, with SetVerbosity, /debug/flags/v.
	Profiling bool
	// SetVerbosity takes what was PUT to /debug/flags/v.
	SetVerbosity func(level string) error
}

// mode is what /proxyMode says: scripts that ask it expect one of kube-proxy's modes.
const mode = "ipvs"

// paths collects what a mux serves, for /statusz.
type paths struct {
	*http.ServeMux
	listed []string
}

func (p *paths) add(path string, handler http.HandlerFunc) {
	p.listed = append(p.listed, path)
	p.HandleFunc(path, handler)
}

// MetricsHandler serves /metrics, /metrics/slis, /healthz, /proxyMode, /statusz and
// what pages adds. This /healthz says only that the server answers; the state of
// the proxy is that of HealthHandler.
func (m *Monitor) MetricsHandler(pages Pages) http.Handler {
	mux := &paths{ServeMux: http.NewServeMux()}
	metrics := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	mux.add("/metrics", func(w http.ResponseWriter, r *http.Request) {
		if pages.BeforeMetrics != nil {
			pages.BeforeMetrics()
		}
		metrics.ServeHTTP(w, r)
	})
	mux.add("/metrics/slis", m.serveSLIs())
	mux.add("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		m.probed(ping, http.StatusOK)
		writeText(w, http.StatusOK, "ok")
	})
	mux.add("/proxyMode", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, mode) })
	if pages.Config != nil {
		mux.add("/configz", serveConfig(pages.Config))
	}
	if pages.Flags != nil {
		mux.add("/flagz", serveFlags(pages.Flags))
	}
	if pages.Profiling {
		addDebug(mux, pages.SetVerbosity)
	}
	started := time.Now()
	mux.add("/statusz", func(w http.ResponseWriter, _ *http.Request) {
		writeText(w, http.StatusOK, m.statusText(started, mux.listed))
	})
	return mux
}

// serveSLIs serves the results of health checks; DELETE forgets them, as it does in
// every Kubernetes component.
func (m *Monitor) serveSLIs() http.HandlerFunc {
	show := promhttp.HandlerFor(m.slis, promhttp.HandlerOpts{})
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			m.probes.last.Reset()
			m.probes.total.Reset()
			writeText(w, http.StatusOK, "metrics reset\n")
			return
		}
		show.ServeHTTP(w, r)
	}
}

func serveConfig(config func() ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		text, err := config()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		writeJSON(w, http.StatusOK, text)
	}
}

func serveFlags(flags func() map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		var b strings.Builder
		b.WriteString("kube-ipvs-proxy flagz\n" + forPeople + "\n")
		all := flags()
		for _, name := range slices.Sorted(maps.Keys(all)) {
			fmt.Fprintf(&b, "%s=%s\n", name, all[name])
		}
		writeText(w, http.StatusOK, b.String())
	}
}

const forPeople = "For people to read: the format may change.\n"

func (m *Monitor) statusText(started time.Time, listed []string) string {
	var b strings.Builder
	b.WriteString("kube-ipvs-proxy statusz\n" + forPeople + "\n")
	fmt.Fprintf(&b, "Started: %s\n", started.Format(time.UnixDate))
	fmt.Fprintf(&b, "Up: %s\n", time.Since(started).Round(time.Second))
	fmt.Fprintf(&b, "Go version: %s\n", runtime.Version())
	fmt.Fprintf(&b, "Binary version: %s\n", m.build.Version)
	fmt.Fprintf(&b, "Paths: %s\n", strings.Join(slices.Sorted(slices.Values(listed)), " "))
	return b.String()
}
