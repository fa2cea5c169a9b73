// Package report holds what the benchmark measured and shows it: as a table, as JSON,
// as a chart, and against the promises.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// Names of the subjects.
const (
	Ours      = "ours"
	OursRoute = "ours-route"
	IPTables  = "kube-proxy-iptables"
	IPVS      = "kube-proxy-ipvs"
	NFTables  = "kube-proxy-nftables"
	Floor     = "floor"
)

// Metric is something that is measured. Values are kept in seconds, bytes or plain
// numbers, and shown times Scale.
type Metric struct {
	Key, Title, Unit string
	Scale            float64
}

// Keys of the metrics.
const (
	StartRight, ListsRight, FirstPacket, StartCPU        = "start_right", "lists_right", "first_packet", "start_cpu"
	ReplaceKernel, ReplacePacket, ReplaceCPU, ReplaceRun = "replace_kernel", "replace_packet", "replace_cpu", "replace_processes"
	AddKernel, AddPacket, AddCPU                         = "add_kernel", "add_packet", "add_cpu"
	RemoveKernel, RemoveCPU                              = "remove_kernel", "remove_cpu"
	StreamKernel, StreamPacket, StreamCPU                = "stream_kernel", "stream_packet", "stream_cpu"
	ConnectFirst, ConnectMiddle, ConnectLast             = "connect_first", "connect_middle", "connect_last"
	StartKernelCPU                                       = "start_cpu_kernel"
	IdleCPU, IdleRun, RSS, RSSPeak                       = "idle_cpu", "idle_processes", "rss", "rss_peak"
)

// Metrics is all of them, in the order of the table.
var Metrics = []Metric{
	{ListsRight, "both lists read to all programmed", "s", 1},
	{StartRight, "process start to all programmed", "s", 1},
	{FirstPacket, "process start to the first Service's first packet", "s", 1},
	{StartCPU, "CPU until it rests", "s", 1},
	{StartKernelCPU, "of that the kernel's", "s", 1},
	{RSS, "memory at rest (RSS)", "MiB", 1.0 / (1 << 20)},
	{RSSPeak, "memory at most until then", "MiB", 1.0 / (1 << 20)},
	{ReplaceKernel, "one endpoint replaced: kernel", "ms", 1e3},
	{ReplacePacket, "one endpoint replaced: first packet", "ms", 1e3},
	{ReplaceCPU, "one endpoint replaced: CPU", "ms", 1e3},
	{ReplaceRun, "one endpoint replaced: processes started", "", 1},
	{AddKernel, "Service added: kernel", "ms", 1e3},
	{AddPacket, "Service added: first packet", "ms", 1e3},
	{AddCPU, "Service added: CPU", "ms", 1e3},
	{RemoveKernel, "Service removed: kernel", "ms", 1e3},
	{RemoveCPU, "Service removed: CPU", "ms", 1e3},
	{StreamKernel, "20 changes a second: kernel", "ms", 1e3},
	{StreamPacket, "20 changes a second: first packet", "ms", 1e3},
	{StreamCPU, "20 changes a second: CPU of each", "ms", 1e3},
	{ConnectFirst, "a connection, first Service", "us", 1e6},
	{ConnectMiddle, "a connection, middle Service", "us", 1e6},
	{ConnectLast, "a connection, last Service", "us", 1e6},
	{IdleCPU, "at rest: CPU a minute", "ms", 1e3},
	{IdleRun, "at rest: processes started", "", 1},
}

// percentiles are shown for metrics with many values, instead of median and spread.
var percentiles = []string{StreamKernel, StreamPacket}

// Run is what one subject did in one round.
type Run struct {
	Subject string               `json:"subject"`
	Size    world.Size           `json:"size"`
	Round   int                  `json:"round"`
	Values  map[string][]float64 `json:"values"`
	// Failure is why it has not all values, empty if it has.
	Failure string `json:"failure,omitempty"`
}

// Report is a benchmark with what has to be known of it.
type Report struct {
	Date     string            `json:"date"`
	Machine  string            `json:"machine"`
	Command  string            `json:"command"`
	Versions map[string]string `json:"versions"` // of the subjects
	Notes    []string          `json:"notes,omitempty"`
	Runs     []Run             `json:"runs"`
}

// Read reads reports and puts their runs together; what is known besides is of the
// first, and versions of all.
func Read(files ...string) (*Report, error) {
	var all *Report
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r := &Report{}
		if err := json.Unmarshal(text, r); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if all == nil {
			all = r
			continue
		}
		all.Runs = append(all.Runs, r.Runs...)
		all.Notes = append(all.Notes, r.Notes...)
		if r.Command != all.Command {
			all.Command += "; " + r.Command
		}
		for subject, version := range r.Versions {
			all.Versions[subject] = version
		}
	}
	return all, nil
}

// JSON writes the report as JSON.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// Failures tells what failed, a line each.
func (r *Report) Failures() []string {
	var out []string
	for _, run := range r.Runs {
		if run.Failure != "" {
			out = append(out, fmt.Sprintf("%s, %v, round %d: %s", run.Subject, run.Size, run.Round, run.Failure))
		}
	}
	return out
}

// values are all values of a metric, sorted.
func (r *Report) values(size world.Size, subject, key string) []float64 {
	var out []float64
	for _, run := range r.Runs {
		if run.Size == size && run.Subject == subject {
			out = append(out, run.Values[key]...)
		}
	}
	slices.Sort(out)
	return out
}

// median of a metric; false when it was not measured.
func (r *Report) median(size world.Size, subject, key string) (float64, bool) {
	v := r.values(size, subject, key)
	if len(v) == 0 {
		return 0, false
	}
	return at(v, 0.5), true
}

// at is a percentile of sorted values, by interpolation.
func at(sorted []float64, p float64) float64 {
	place := p * float64(len(sorted)-1)
	low := int(place)
	if low+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[low] + (place-float64(low))*(sorted[low+1]-sorted[low])
}

// sizes and subjects in the order in which they first appear.
func (r *Report) sizes() []world.Size {
	var out []world.Size
	for _, run := range r.Runs {
		if !slices.Contains(out, run.Size) {
			out = append(out, run.Size)
		}
	}
	return out
}

func (r *Report) subjects() []string {
	var out []string
	for _, run := range r.Runs {
		if !slices.Contains(out, run.Subject) {
			out = append(out, run.Subject)
		}
	}
	return out
}
