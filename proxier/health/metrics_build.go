package health

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// Build says what runs, for kubernetes_build_info and /statusz. Fields may be empty.
type Build struct {
	Major, Minor string
	Version      string // for example "v1.2.3"
	Commit       string
	TreeState    string // "clean" or "dirty"
	Date         string // ISO 8601
}

// Feature is a feature gate; Stage is "", "ALPHA", "BETA" or "DEPRECATED".
type Feature struct {
	Name, Stage string
	Enabled     bool
}

// standard returns what every component of Kubernetes shows: what was built, its
// feature gates, the process and the Go runtime.
func standard(build Build, features []Feature) []prometheus.Collector {
	info := gauge("kubernetes_build_info", "What runs; always 1.", "major", "minor", "git_version", "git_commit",
		"git_tree_state", "build_date", "go_version", "compiler", "platform")
	info.WithLabelValues(build.Major, build.Minor, build.Version, build.Commit, build.TreeState, build.Date,
		runtime.Version(), runtime.Compiler, runtime.GOOS+"/"+runtime.GOARCH).Set(1)
	gates := gauge("kubernetes_feature_enabled", "Feature gates; 1 is on.", "name", "stage")
	for _, f := range features {
		value := 0.0
		if f.Enabled {
			value = 1
		}
		gates.WithLabelValues(f.Name, f.Stage).Set(value)
	}
	return []prometheus.Collector{
		info, gates, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	}
}
