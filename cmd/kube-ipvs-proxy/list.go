package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-ipvs-proxy/proxier/config"
)

// listing is what the flags of list ask for.
type listing struct {
	output                      string
	namespace, service, address string
	rate                        bool
	watch                       time.Duration // zero: once
}

func listCommand() *cobra.Command {
	raw := config.Defaults()
	l := listing{output: "table"}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "Show virtual and real servers with the names of Services",
		Long: "list reads the kernel, as ipvsadm -Ln does, and names Services, ports, pods and nodes\n" +
			"beside the addresses. Names come from the agent of this node, the manifests or the\n" +
			"API server; without any of them it shows addresses only. A real server that left its\n" +
			"Service is shown as draining, with the reason; an agent also tells until when.\n\n" +
			"-o ipvsadm prints what ipvsadm -Ln prints, byte for byte, for scripts that read it.",
		Example: "  kube-ipvs-proxy list --config /var/lib/kube-proxy/config.conf\n" +
			"  kube-ipvs-proxy list --manifests /etc/services --namespace shop -o wide\n" +
			"  kube-ipvs-proxy list --service shop/web --rate --watch\n" +
			"  kube-ipvs-proxy list --address 10.96.0.10 -o json\n" +
			"  kube-ipvs-proxy list -o ipvsadm",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := l.check(); err != nil {
				return err
			}
			v, err := lookAround(cmd.Context(), cmd.Flags(), raw)
			if err != nil {
				return err
			}
			return l.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), v)
		},
	}
	toolFlags(cmd, &raw)
	f := cmd.Flags()
	f.StringVarP(&l.output, "output", "o", l.output, "table, wide, json or ipvsadm")
	f.StringVar(&l.namespace, "namespace", "", "only servers of this `namespace`")
	f.StringVar(&l.service, "service", "", "only servers of this `Service`: name or namespace/name")
	f.StringVar(&l.address, "address", "", "only servers with this `address`, or address:port, of their own or of a real server")
	f.BoolVar(&l.rate, "rate", false, "show connections, packets and bytes a second, as far as IPVS estimates them")
	f.DurationVar(&l.watch, "watch", 0, "show again after each `time`, the most traffic first (default 2s)")
	f.Lookup("watch").NoOptDefVal = "2s"
	completeFlags(cmd, &raw, map[string][]cobra.Completion{"output": {"table", "wide", "json", "ipvsadm"}})
	return cmd
}

func (l listing) check() error {
	if err := checkOutput(l.output, "table", "wide", "json", "ipvsadm"); err != nil {
		return err
	}
	switch {
	case l.rate && l.output == "ipvsadm":
		return exitError{2, errors.New("--rate: not with -o ipvsadm, which prints connections (use -o table)")}
	case l.watch < 0:
		return exitError{2, fmt.Errorf("--watch %v: must not be negative", l.watch)}
	}
	return nil
}

// run shows the list once, or again and again until the context ends.
func (l listing) run(ctx context.Context, out, errs io.Writer, v view) error {
	eyes, err := openEyes()
	if err != nil {
		return exitError{2, fmt.Errorf("%w; list reads the kernel of this node", err)}
	}
	names := &names{}
	if l.output != "ipvsadm" || l.namespace != "" || l.service != "" {
		if names, err = openNames(ctx, v); err != nil {
			fmt.Fprintln(errs, "kube-ipvs-proxy: without names:", err)
		}
	}
	defer names.close()
	if (l.namespace != "" || l.service != "") && names.scene == nil {
		return exitError{2, errors.New("--namespace and --service need the names of Services: give --manifests, --kubeconfig or --config")}
	}
	for {
		text, err := l.once(ctx, eyes, names)
		if err != nil {
			return err
		}
		if l.watch > 0 && isTerminal(out) {
			text = "\x1b[H\x1b[2J" + text
		}
		if _, err := io.WriteString(colourful(out), text); err != nil || l.watch == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(l.watch):
		}
	}
}

// once renders the list.
func (l listing) once(ctx context.Context, eyes *eyes, names *names) (string, error) {
	all, err := eyes.look(ctx)
	if err != nil {
		return "", exitError{2, fmt.Errorf("%w (list needs root)", err)}
	}
	if err := names.refresh(ctx); err != nil {
		return "", err
	}
	var kept []seen
	var rows []row
	for _, s := range all {
		if r := names.row(s); l.picks(r) {
			kept, rows = append(kept, s), append(rows, r)
		}
	}
	var b strings.Builder
	switch l.output {
	case "ipvsadm":
		header, err := ipvsadmHeader()
		if err != nil {
			return "", err
		}
		printIPVSAdm(&b, header, kept)
		return b.String(), nil
	case "json":
		sortRows(rows, l.watch > 0)
		if rows == nil {
			rows = []row{}
		}
		err := printJSON(&b, rows)
		return b.String(), err
	}
	sortRows(rows, l.watch > 0)
	l.print(&b, rows)
	return b.String(), nil
}

// picks tells whether the filters let a row through.
func (l listing) picks(r row) bool {
	namespace, name, _ := strings.Cut(r.Service, "/")
	switch {
	case l.namespace != "" && namespace != l.namespace:
		return false
	case l.service != "" && l.service != r.Service && l.service != name:
		return false
	case l.address == "":
		return true
	}
	if isAt(r.key.Addr, l.address) {
		return true
	}
	for _, real := range r.RealServers {
		if isAt(real.addr, l.address) {
			return true
		}
	}
	return false
}

// isAt tells whether text is the address, with or without the port.
func isAt(at netip.AddrPort, text string) bool {
	if addr, err := netip.ParseAddr(text); err == nil {
		return at.Addr() == addr
	}
	return at.String() == text
}

// isTerminal tells whether somebody looks at the output.
func isTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
