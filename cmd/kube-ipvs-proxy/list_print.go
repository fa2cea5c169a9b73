package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// print prints a block a virtual server: its line, and one for each real server.
func (l listing) print(w io.Writer, rows []row) {
	if len(rows) == 0 {
		fmt.Fprintln(w, "no virtual servers")
		return
	}
	widths := l.widths(rows)
	line := func(columns ...any) {
		text := fmt.Sprintf(widths.format(l.rate), columns...)
		fmt.Fprintln(w, strings.TrimRight(text, " "))
	}
	if l.rate {
		line("SERVER", "CONN/S", "PKT/S IN", "OUT", "BYTE/S IN", "OUT")
	} else {
		line("SERVER", "WEIGHT", "ACTIVE", "INACTIVE", "NODE", "POD")
	}
	for _, r := range rows {
		fmt.Fprintln(w, l.serverLine(r))
		if l.rate {
			line(append([]any{"  all"}, r.Rate.columns()...)...)
		}
		for _, real := range r.RealServers {
			line(l.columns(real, widths)...)
			if real.State != "" {
				printHanging(w, "     ", "     ", real.state(time.Now()))
			}
		}
	}
}

// widths of the columns; a pod's of zero is any.
type widths struct{ address, node, pod int }

// What the columns between address and node take, and what names get.
const (
	numberColumns = 26
	mostNode      = 16
	leastPod      = 10
)

// format is that of a line of columns.
func (w widths) format(rate bool) string {
	if rate {
		return fmt.Sprintf("%%-%ds  %%6v  %%8v  %%6v  %%10v  %%10v", w.address)
	}
	return fmt.Sprintf("%%-%ds  %%6v  %%6v  %%8v  %%-%ds  %%s", w.address, w.node)
}

// widths fit a line into 80 columns, unless it is to be wide.
func (l listing) widths(rows []row) widths {
	w := widths{address: len("SERVER"), node: len("NODE")}
	for _, r := range rows {
		for _, real := range r.RealServers {
			w.address, w.node = max(w.address, len("  -> "+real.Address)), max(w.node, len(real.Node))
		}
	}
	if l.output != "wide" {
		w.node = min(w.node, mostNode)
		w.pod = max(leastPod, usageWidth-w.address-2-numberColumns-w.node-2)
	}
	return w
}

// clip shortens a name in its middle: both ends tell names apart.
func clip(name string, width int) string {
	if width == 0 || len(name) <= width {
		return name
	}
	end := width / 2
	return name[:width-end-1] + "~" + name[len(name)-end:]
}

// serverLine has the name and the options of a virtual server; it has no columns.
func (l listing) serverLine(r row) string {
	parts := []string{r.Server}
	if r.Service != "" {
		name := r.Service
		if r.Port != "" {
			name += ":" + r.Port
		}
		parts = append(parts, name)
	}
	if r.Kind != "" {
		parts = append(parts, string(r.Kind))
	}
	options := r.Scheduler
	if r.Persistence != 0 {
		options += fmt.Sprintf(" persistent %ds", r.Persistence)
	}
	if l.output == "wide" {
		options += fmt.Sprintf(" flags %#x", r.Flags)
	}
	parts = append(parts, options)
	if r.State != "" {
		parts = append(parts, r.State)
	}
	return strings.Join(parts, "  ")
}

// columns are those of a real server.
func (l listing) columns(r realRow, w widths) []any {
	address := "  -> " + r.Address
	if l.rate {
		return append([]any{address}, r.Rate.columns()...)
	}
	node, pod := r.Node, r.Pod
	if l.output == "wide" {
		pod = fmt.Sprintf("%s  %d conn/s, %d B/s in, %d B/s out", dash(pod), r.Rate.Connections, r.Rate.BytesIn, r.Rate.BytesOut)
	} else {
		node, pod = clip(node, w.node), clip(pod, w.pod)
	}
	return []any{address, r.Weight, r.Active, r.Inactive, dash(node), dash(pod)}
}

// state says what is special about a real server; of a drain also why, since when and
// how long at most.
func (r realRow) state(now time.Time) string {
	text := r.State
	if !r.Since.IsZero() {
		text += " for " + now.Sub(r.Since).Round(time.Second).String()
	}
	if r.Reason != "" {
		text += ": " + r.Reason
	}
	switch {
	case !r.Deadline.IsZero():
		text += "; ends in " + max(0, r.Deadline.Sub(now).Round(time.Second)).String() + " at the latest"
	case !r.Since.IsZero():
		text += "; without a deadline"
	}
	return text
}

func (r rate) columns() []any {
	return []any{r.Connections, r.PacketsIn, r.PacketsOut, r.BytesIn, r.BytesOut}
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
