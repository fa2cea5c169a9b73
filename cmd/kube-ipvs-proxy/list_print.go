package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// print prints a block a virtual server: its line, and one for each real server.
func (l listing) print(w io.Writer, rows []row) {
	if len(rows) == 0 {
		fmt.Fprintln(w, "no virtual servers")
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := "SERVER\tWEIGHT\tACTIVE\tINACTIVE\tNODE"
	if l.rate {
		header = "SERVER\tCONN/S\tPKT/S IN\tOUT\tBYTE/S IN\tOUT"
	}
	fmt.Fprintln(t, header)
	for _, r := range rows {
		fmt.Fprintln(t, l.serverLine(r))
		for _, real := range r.RealServers {
			fmt.Fprintln(t, l.realLine(real))
		}
	}
	_ = t.Flush() // the writer is a buffer
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

func (l listing) realLine(r realRow) string {
	line := "  -> " + r.Address
	if l.rate {
		return line + "\t" + r.Rate.columns()
	}
	line += fmt.Sprintf("\t%d\t%d\t%d\t%s", r.Weight, r.Active, r.Inactive, dash(r.Node))
	if r.State != "" {
		line += "  " + r.State
	}
	if l.output == "wide" {
		line += "\t" + fmt.Sprintf("%d conn/s, %d B/s in, %d B/s out", r.Rate.Connections, r.Rate.BytesIn, r.Rate.BytesOut)
	}
	return line
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
