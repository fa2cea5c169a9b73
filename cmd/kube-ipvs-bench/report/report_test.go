package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// sample is a report in which ours is a fiftieth of all others, but for memory.
func sample() *Report {
	r := &Report{Date: "2026-11-30", Machine: "a <machine>", Command: "kube-ipvs-bench", Versions: map[string]string{Ours: "v1"}}
	for _, size := range []world.Size{small, middle, large, wide} {
		for round := 1; round <= 3; round++ {
			for _, subject := range []string{Ours, Floor, NFTables, IPVS, IPTables} {
				run := Run{Subject: subject, Size: size, Round: round, Values: map[string][]float64{}}
				for _, m := range Metrics {
					v := float64(round) * float64(size.Services)
					if subject == Ours && m.Key != RSS {
						v /= 50
					}
					run.Values[m.Key] = []float64{v}
				}
				r.Runs = append(r.Runs, run)
			}
		}
	}
	return r
}

func text(t *testing.T, write func(io.Writer) error) string {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTable(t *testing.T) {
	r := sample()
	r.Runs[0].Failure = "it died"
	got := text(t, r.Table)
	for _, want := range []string{
		"ours: v1", "\n5000 Services x 4 endpoints", "kube-proxy-iptables",
		"both lists read to all programmed", "200 (100-300)", "10000 (5000-15000)",
		"FAILED:\nours, 100x4, round 1: it died",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the table lacks %q:\n%s", want, got)
		}
	}
	if got := text(t, r.Markdown); !strings.Contains(got, "| both lists read to all programmed, s | 200 | 10000 | 10000 | 10000 | 10000 |") {
		t.Errorf("Markdown:\n%s", got)
	}
}

func TestJSONAndRead(t *testing.T) {
	r := sample()
	half := *r
	r.Runs, half.Runs = r.Runs[:10], r.Runs[10:]
	dir := t.TempDir()
	for name, one := range map[string]*Report{"a": r, "b": &half} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text(t, one.JSON)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Read(filepath.Join(dir, "a"), filepath.Join(dir, "b"))
	if err != nil || !reflect.DeepEqual(got, sample()) {
		t.Errorf("read again: %v", err)
	}
	if _, err := Read(filepath.Join(dir, "none")); err == nil {
		t.Error("a missing file is none")
	}
}

// TestChart: it is XML, each subject has a line of all sizes with four endpoints, and
// a longer time is higher up.
func TestChart(t *testing.T) {
	r := sample()
	got := text(t, func(w io.Writer) error { return r.Chart(w, ListsRight, r.Drawn()) })
	d := xml.NewDecoder(strings.NewReader(got))
	lines, points := 0, 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, got)
		}
		start, ok := token.(xml.StartElement)
		switch {
		case ok && start.Name.Local == "polyline":
			lines++
		case ok && start.Name.Local == "circle":
			points++
		}
	}
	if lines != 5 || points != 15 || !strings.Contains(got, ">kube-proxy-nftables<") || !strings.Contains(got, "a &lt;machine&gt;") {
		t.Errorf("%d lines, %d points:\n%s", lines, points, got)
	}
	c := &chart{minX: 1, maxX: 10, minY: 1, maxY: 10}
	if c.y(10) >= c.y(2) || c.y(2) >= c.y(1) || c.x(1) >= c.x(10) || c.x(1) != left {
		t.Error("the axes run the wrong way")
	}
	if err := r.Chart(io.Discard, ListsRight, 7); err == nil {
		t.Error("a chart of nothing is drawn")
	}
}

func TestPromises(t *testing.T) {
	got := text(t, sample().Promises)
	for _, want := range []string{
		"| rule sync (both lists to all programmed) | 5000x4 | 1/30 of kube-proxy-ipvs | 200 against 10000 s: 1/50.0 | holds |",
		"| one endpoint replaced, CPU | 5000x4 | 1/500 of kube-proxy-ipvs |",
		"1/50.0 | does not hold |",
		"| memory | 5000x4 | 1/2 of kube-proxy-ipvs | 0.010 against 0.010 MiB: 1/1.00 | does not hold |",
		"50.00 times | does not hold |", // CPU of a change at 5,000 and at 100
	} {
		if !strings.Contains(got, want) {
			t.Errorf("promises lack %q:\n%s", want, got)
		}
	}
	if got := text(t, (&Report{}).Promises); strings.Contains(got, "hold") {
		t.Errorf("without figures, promises are judged:\n%s", got)
	}
}

func TestPercentile(t *testing.T) {
	v := []float64{1, 2, 3, 4, 5}
	for p, want := range map[float64]float64{0: 1, 0.5: 3, 1: 5, 0.9: 4.6} {
		if got := at(v, p); got < want-1e-9 || got > want+1e-9 {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
}
