package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// Table writes a table for each size: medians, in brackets the least and the most.
func (r *Report) Table(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s\n%s\n", r.Date, r.Machine, r.Command)
	for _, subject := range r.subjects() {
		if v := r.Versions[subject]; v != "" {
			fmt.Fprintf(w, "%s: %s\n", subject, v)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintln(w, note)
	}
	for _, size := range r.sizes() {
		fmt.Fprintf(w, "\n%d Services x %d endpoints; medians (least-most; p50 / p99 of streams)\n", size.Services, size.Endpoints)
		if err := r.one(w, size); err != nil {
			return err
		}
	}
	if failures := r.Failures(); len(failures) > 0 {
		fmt.Fprintf(w, "\nFAILED:\n%s\n", strings.Join(failures, "\n"))
	}
	return nil
}

func (r *Report) one(w io.Writer, size world.Size) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	var subjects []string
	for _, s := range r.subjects() {
		if slices.ContainsFunc(r.Runs, func(run Run) bool { return run.Size == size && run.Subject == s }) {
			subjects = append(subjects, s)
		}
	}
	fmt.Fprintf(tw, "\t\t%s\n", strings.Join(subjects, "\t"))
	for _, m := range Metrics {
		row, any := make([]string, 0, len(subjects)), false
		for _, subject := range subjects {
			cell := r.cell(size, subject, m)
			any = any || cell != ""
			row = append(row, cell)
		}
		if any {
			fmt.Fprintf(tw, "%s\t%s\t%s\n", m.Title, m.Unit, strings.Join(row, "\t"))
		}
	}
	return tw.Flush()
}

// Markdown writes the tables as Markdown, medians only.
func (r *Report) Markdown(w io.Writer) error {
	subjects := r.subjects()
	for _, size := range r.sizes() {
		fmt.Fprintf(w, "\n| %d Services x %d endpoints | %s |\n|---|%s\n", size.Services, size.Endpoints,
			strings.Join(subjects, " | "), strings.Repeat("---:|", len(subjects)))
		for _, m := range Metrics {
			var row []string
			for _, subject := range subjects {
				row = append(row, r.short(size, subject, m))
			}
			if strings.Trim(strings.Join(row, ""), "-") == "" {
				continue
			}
			title := m.Title
			if m.Unit != "" {
				title += ", " + m.Unit
			}
			fmt.Fprintf(w, "| %s | %s |\n", title, strings.Join(row, " | "))
		}
	}
	return nil
}

// short is one figure: the median, or p50 / p99.
func (r *Report) short(size world.Size, subject string, m Metric) string {
	v := r.values(size, subject, m.Key)
	switch {
	case len(v) == 0:
		return "-"
	case slices.Contains(percentiles, m.Key):
		return digits(at(v, 0.5)*m.Scale) + " / " + digits(at(v, 0.99)*m.Scale)
	}
	return digits(at(v, 0.5) * m.Scale)
}

// cell is short with the spread.
func (r *Report) cell(size world.Size, subject string, m Metric) string {
	v := r.values(size, subject, m.Key)
	switch {
	case len(v) == 0:
		return ""
	case len(v) == 1 || slices.Contains(percentiles, m.Key):
		return r.short(size, subject, m)
	}
	return fmt.Sprintf("%s (%s-%s)", r.short(size, subject, m), digits(v[0]*m.Scale), digits(v[len(v)-1]*m.Scale))
}

// digits writes a number with three digits that count.
func digits(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.1:
		return fmt.Sprintf("%.3f", v)
	case v < 1:
		return fmt.Sprintf("%.2f", v)
	case v < 10:
		return fmt.Sprintf("%.2f", v)
	case v < 100:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
