package health

import (
	"io"
	"net/http"
	"net/http/pprof"
	"strings"
)

// addDebug adds profiles and, when somebody takes it, the verbosity of the log.
func addDebug(mux *paths, setVerbosity func(string) error) {
	mux.add("/debug/pprof/", pprof.Index)
	mux.add("/debug/pprof/cmdline", pprof.Cmdline)
	mux.add("/debug/pprof/profile", pprof.Profile)
	mux.add("/debug/pprof/symbol", pprof.Symbol)
	mux.add("/debug/pprof/trace", pprof.Trace)
	mux.HandleFunc("/debug/pprof", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/debug/pprof/", http.StatusMovedPermanently)
	})
	if setVerbosity != nil {
		mux.add("/debug/flags/v", putVerbosity(setVerbosity))
	}
}

// maxLevel bounds what is read of a request that sets the verbosity.
const maxLevel = 64

func putVerbosity(set func(string) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPut {
			w.Header().Set("Allow", http.MethodPut)
			writeText(w, http.StatusMethodNotAllowed, "PUT a log level\n")
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxLevel))
		level := strings.TrimSpace(string(body))
		if err == nil {
			err = set(level)
		}
		if err != nil {
			writeText(w, http.StatusBadRequest, "log level: "+err.Error()+"\n")
			return
		}
		writeText(w, http.StatusOK, "log level is now "+level+"\n")
	}
}
