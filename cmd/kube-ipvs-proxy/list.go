package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/kernel"
	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/ledger"
)

func listCommand() *cobra.Command {
	raw := config.Defaults()
	output := "table"
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show the virtual and real servers of this node, with the Services that own them",
		Long: "list reads the kernel, as ipvsadm -Ln does, and names the Services from the API server\n" +
			"or the manifests. Without --kubeconfig, --master or --manifests it shows addresses only.",
		Example: "  kube-ipvs-proxy list --manifests /etc/services\n" +
			"  kube-ipvs-proxy list -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			rows, err := listRows(cmd.Context(), raw)
			if err != nil {
				return err
			}
			return printRows(cmd.OutOrStdout(), output, rows)
		},
	}
	f := cmd.Flags()
	f.StringVar(&raw.Manifests, "manifests", "", "`folder` of manifests that names the Services")
	f.StringVar(&raw.ClientConnection.Kubeconfig, "kubeconfig", "", "`file` that says how to reach the API server, which names the Services")
	f.StringVar(&raw.Master, "master", "", "`URL` of the API server; wins over the kubeconfig")
	f.StringVar(&raw.HostnameOverride, "hostname-override", "", "`name` of this node (default: the host's name)")
	f.StringVarP(&output, "output", "o", output, "table, wide or json")
	return cmd
}

// row is one virtual server with its real servers.
type row struct {
	Server      string    `json:"server"`
	Service     string    `json:"service,omitempty"`
	Scheduler   string    `json:"scheduler"`
	Persistence uint32    `json:"persistenceSeconds,omitempty"`
	Flags       uint32    `json:"flags,omitempty"`
	RealServers []realRow `json:"realServers"`
}

type realRow struct {
	Address  string `json:"address"`
	Weight   uint32 `json:"weight"`
	Active   uint32 `json:"activeConnections"`
	Inactive uint32 `json:"inactiveConnections"`
	Draining bool   `json:"draining,omitempty"`
}

// listRows reads the kernel, and the names where a folder of manifests is given.
func listRows(ctx context.Context, raw config.Raw) ([]row, error) {
	ipvs, err := kernel.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ipvs.Close() }()
	desired, err := desiredOf(ctx, raw)
	if err != nil {
		return nil, err
	}
	servers, err := ipvs.VirtualServers(ctx)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(servers, func(a, b ipvsutil.VirtualServer) int { return a.Key.Compare(b.Key) })
	rows := make([]row, 0, len(servers))
	for _, s := range servers {
		reals, err := ipvs.RealServers(ctx, s.Key)
		if err != nil {
			return nil, err
		}
		rows = append(rows, rowOf(s, reals, desired))
	}
	return rows, nil
}

// sourceWait is how long a command waits for the API server.
const sourceWait = time.Minute

// desiredOf plans all Services of the source, or nothing when none is named.
func desiredOf(ctx context.Context, raw config.Raw) (*ledger.Ledger, error) {
	if raw.Manifests == "" && raw.ClientConnection.Kubeconfig == "" && raw.Master == "" {
		return ledger.New(0, 0), nil
	}
	options, err := raw.Validate()
	if err != nil {
		return nil, exitError{2, err}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, sourceWait, fmt.Errorf("the Services could not be read within %v", sourceWait))
	defer cancel()
	agent, err := build(ctx, options, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	defer agent.close()
	desired, err := agent.proxier.Plan(ctx)
	if err != nil && ctx.Err() != nil {
		err = agent.source.explain(context.Cause(ctx))
	}
	return desired, err
}

func rowOf(s ipvsutil.VirtualServer, reals []ipvsutil.RealServerState, desired *ledger.Ledger) row {
	r := row{
		Server: s.Key.String(), Scheduler: s.Scheduler, Persistence: s.Persistence,
		Flags: uint32(s.Flags), RealServers: []realRow{},
	}
	if want, ok := desired.Server(s.Key); ok {
		r.Service = want.Owner.String()
	}
	slices.SortFunc(reals, func(a, b ipvsutil.RealServerState) int { return a.Addr.Compare(b.Addr) })
	for _, real := range reals {
		r.RealServers = append(r.RealServers, realRow{
			Address: real.Addr.String(), Weight: real.Weight, Draining: real.Weight == 0,
			Active: real.Connections.Active, Inactive: real.Connections.Inactive,
		})
	}
	return r
}

func printRows(w io.Writer, output string, rows []row) error {
	switch output {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(rows)
	case "table", "wide":
		return printTable(w, output == "wide", rows)
	}
	return exitError{2, fmt.Errorf("-o %q: must be table, wide or json", output)}
}

func printTable(w io.Writer, wide bool, rows []row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	header := "SERVER\tSCHED\tWEIGHT\tACTIVE\tINACTIVE\tSERVICE"
	if wide {
		header += "\tPERSISTENCE\tFLAGS"
	}
	fmt.Fprintln(t, header)
	for _, r := range rows {
		line := fmt.Sprintf("%s\t%s\t\t\t\t%s", r.Server, r.Scheduler, dash(r.Service))
		if wide {
			line += "\t" + dash(seconds(r.Persistence)) + "\t" + strconv.FormatUint(uint64(r.Flags), 16)
		}
		fmt.Fprintln(t, line)
		for _, real := range r.RealServers {
			state := ""
			if real.Draining {
				state = "draining"
			}
			fmt.Fprintf(t, "  -> %s\t\t%d\t%d\t%d\t%s\n", real.Address, real.Weight, real.Active, real.Inactive, state)
		}
	}
	return t.Flush()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func seconds(n uint32) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(n), 10) + "s"
}
