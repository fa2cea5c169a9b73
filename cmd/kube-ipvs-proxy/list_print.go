package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// print prints a block a virtual server: its line, and one for each real server.
func (l listing) print(w io.Writer, rows []row) {
	if len(rows) == 0 {
		fmt.Fprintln(w, "no virtual servers")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := "SERVER\tWEIGHT\tACTIVE\tINACTIVE\tNODE\tPOD"
	if l.rate {
		header = "SERVER\tCONN/S\tPKT/S IN\tOUT\tBYTE/S IN\tOUT"
	}
	fmt.Fprintln(t, header)
	widths := l.widths(rows)
	for _, r := range rows {
		fmt.Fprintln(t, l.serverLine(r))
		for _, real := range r.RealServers {
			fmt.Fprintln(t, l.realLine(real, widths))
			if real.State != "" {
				fmt.Fprintln(t, "     "+real.state(time.Now()))
			}
		}
	}
	_ = t.Flush() // the writer is a buffer
}

// widths of the columns of nodes and pods; zero: any.
type widths struct{ node, pod int }

// What the columns between address and node take, and what names get at least.
const (
	numberColumns = 26
	mostNode      = 16
	leastPod      = 10
)

// widths fit a line into 80 columns, unless it is to be wide.
func (l listing) widths(rows []row) widths {
	if l.output == "wide" {
		return widths{}
	}
	address, node := 0, len("NODE")
	for _, r := range rows {
		for _, real := range r.RealServers {
			address, node = max(address, len("  -> "+real.Address)), max(node, len(real.Node))
		}
	}
	node = min(node, mostNode)
	return widths{node, max(leastPod, usageWidth-address-2-numberColumns-node-2)}
}

// clip shortens a name in its middle: both ends tell names apart.
func clip(name string, width int) string {
	if width == 0 || len(name) <= width {
		return name
	}
	end := width / 2
	return name[:width-end-1] + "~" + name[len(name)-end:]
}

// serverLine has the name and the options of a virtual server. Without tabs it takes
// no part in the columns.
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
	line := strings.Join(parts, "  ")
	if l.rate {
		line += "\t" + r.Rate.columns()
	}
	return line
}

func (l listing) realLine(r realRow, w widths) string {
	line := "  -> " + r.Address
	if l.rate {
		return line + "\t" + r.Rate.columns()
	}
	line += fmt.Sprintf("\t%d\t%d\t%d\t%s\t%s", r.Weight, r.Active, r.Inactive, dash(clip(r.Node, w.node)), dash(clip(r.Pod, w.pod)))
	if l.output == "wide" {
		line += "\t" + fmt.Sprintf("%d conn/s, %d B/s in, %d B/s out", r.Rate.Connections, r.Rate.BytesIn, r.Rate.BytesOut)
	}
	return line
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

func (r rate) columns() string {
	return fmt.Sprintf("%d\t%d\t%d\t%d\t%d", r.Connections, r.PacketsIn, r.PacketsOut, r.BytesIn, r.BytesOut)
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
