package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/kernel"
	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/host"
	"kube-ipvs-proxy/proxier/netfilter"
	"kube-ipvs-proxy/proxier/reconcile"
	"kube-ipvs-proxy/proxier/reserve"
)

func planCommand() *cobra.Command {
	raw := config.Defaults()
	output := "text"
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Show the operations that run would do now, and do none",
		Long: "plan does what run does at its start, with doors into the kernel that read and write\n" +
			"nothing: it shows the operations in the order in which run would do them, and those\n" +
			"on the node's settings before. Nothing is changed.",
		Example: "  kube-ipvs-proxy plan --config /var/lib/kube-proxy/config.conf\n" +
			"  kube-ipvs-proxy plan --manifests /etc/services --cluster-cidr 10.244.0.0/16\n" +
			"  kube-ipvs-proxy plan -o json | jq -r '.[] | .kind' | sort | uniq -c",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output, "text", "json"); err != nil {
				return err
			}
			v, err := lookAround(cmd.Context(), cmd.Flags(), raw)
			if err != nil {
				return err
			}
			notes, failed := preview(cmd.Context(), v)
			if notes == nil {
				return failed
			}
			return errors.Join(notes.print(cmd.OutOrStdout(), output), failed)
		},
	}
	toolFlags(cmd, &raw)
	cmd.Flags().StringVarP(&output, "output", "o", output, "text or json")
	completeFlags(cmd, &raw, map[string][]cobra.Completion{"output": {"text", "json"}})
	return cmd
}

// notebook is what the doors were asked for, in order.
type notebook struct{ ops []operation }

// operation is one change of the kernel.
type operation struct {
	Kind   string `json:"kind"`
	Verb   string `json:"verb"`
	Object string `json:"object"`
	// Refused says why the operation would fail; it is not sent then.
	Refused string `json:"refused,omitempty"`
}

func (n *notebook) add(kind, verb, object string) {
	n.ops = append(n.ops, operation{Kind: kind, Verb: verb, Object: object})
}

// preview collects the operations of run's start. With an error there may be some too.
func preview(ctx context.Context, v view) (*notebook, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readLimit, fmt.Errorf("no complete list of Services within %v", readLimit))
	defer cancel()
	n := &notebook{}
	quiet := slog.New(slog.DiscardHandler)
	if _, err := chooseBackend(ctx, &v.options); err != nil {
		return nil, exitError{2, err} // as run would say
	}
	if err := n.settings(ctx, v.options, quiet); err != nil {
		return nil, err
	}
	agent, err := buildOn(ctx, v.options, quiet, v.open, n.doors)
	if err != nil {
		return nil, exitError{2, err}
	}
	defer agent.close()
	if err := agent.proxier.Preview(ctx); err != nil {
		return n, exitError{2, agent.source.explain(err)}
	}
	return n, nil
}

// settings notes the settings that run would write.
func (n *notebook) settings(ctx context.Context, options config.Options, log *slog.Logger) error {
	settings, module, err := wantedSysctls(options, hostHasIPv6(), log)
	if err != nil {
		return err
	}
	wrong := host.CheckSysctls(host.ProcSys, settings)
	for _, p := range append(wrong, host.CheckSysctls(host.Sys, module)...) {
		if p.Rule != host.ReportSysctl {
			n.add("setting", "set", strings.ReplaceAll(p.Key, "/", ".")+" to "+p.Want)
		}
	}
	ipvs, err := kernel.Open(ctx)
	if err != nil {
		return fmt.Errorf("%w (plan reads the kernel, and needs root)", err)
	}
	defer func() { _ = ipvs.Close() }()
	have, err := ipvs.Timeouts(ctx)
	if err != nil {
		return err
	}
	established, _ := establishedTimeout()
	if want := wantTimeouts(have, options.Timeouts, established); want != have {
		n.add("setting", "set", fmt.Sprintf("IPVS timeouts to %d %d %d (tcp tcpfin udp)", want.TCP, want.TCPFin, want.UDP))
	}
	return nil
}

// doors are those of run, with a notebook between them and the kernel.
func (n *notebook) doors(a *agent, ctx context.Context, options config.Options, marks netfilter.Marks) (reconcile.Doors, error) {
	real, err := a.doors(ctx, options, marks)
	if err != nil {
		return reconcile.Doors{}, err
	}
	a.reserve = n.reserve(real.Sets)
	return reconcile.Doors{
		IPVS: noteIPVS{real.IPVS, n}, Sets: noteSets{real.Sets, n}, Addresses: noteAddresses{real.Addresses, n},
		Rules: noteRules{flags(options, marks), n}, Flows: noteFlows{n}, Others: noteOthers{n},
	}, nil
}

// reserve notes what run would write to keep NodePorts out of the node's own connections.
func (n *notebook) reserve(sets ipsetutil.Sets) func(context.Context, map[uint16]bool) (bool, error) {
	ports := reserve.New(host.ProcSys, sets)
	return func(ctx context.Context, want map[uint16]bool) (bool, error) {
		text, changed, err := ports.Preview(ctx, want)
		if changed {
			n.add("setting", "set", strings.ReplaceAll(reserve.Key, "/", ".")+" to "+text)
		}
		return changed, err
	}
}

func (n *notebook) print(w io.Writer, output string) error {
	if output == "json" {
		if n.ops == nil {
			n.ops = []operation{}
		}
		return printJSON(w, n.ops)
	}
	for _, op := range n.ops {
		line := op.Verb + " " + op.Object
		if op.Refused != "" {
			line += " (refused: " + op.Refused + ")"
		}
		fmt.Fprintln(w, line)
	}
	switch len(n.ops) {
	case 0:
		fmt.Fprintln(w, "nothing to do: the kernel equals the plan")
	case 1:
		fmt.Fprintln(w, "1 operation; nothing was done")
	default:
		fmt.Fprintf(w, "%d operations; nothing was done\n", len(n.ops))
	}
	return nil
}
