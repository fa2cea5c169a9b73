package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/explain"
	"kube-ipvs-proxy/proxier/host"
)

func doctorCommand() *cobra.Command {
	return examineCommand("doctor", true, "Look for what is wrong with this node, and say what to do next",
		"doctor looks whether the node has what the proxy needs, asks the agent whether it is\n"+
			"healthy, compares the kernel with the plan as verify does, and looks for known traps:\n"+
			"rules of another kube-proxy, a firewall that drops, rp_filter, ARP for bound\n"+
			"addresses, ports of the node that overlap NodePorts, a full conntrack table, idle\n"+
			"limits that do not fit together. Each finding comes with the next command.\n"+
			"To find out whether the kernel has dummy devices it may make one for a moment.")
}

func statusCommand() *cobra.Command {
	return examineCommand("status", false, "The same as doctor, without probes: it only reads",
		"status says what doctor says, but only reads: it does not ask the agent, and does not\n"+
			"try whether the kernel has what the proxy needs.")
}

// examineCommand makes doctor and status.
func examineCommand(name string, probes bool, short, long string) *cobra.Command {
	raw := config.Defaults()
	output := "text"
	cmd := &cobra.Command{
		Use:   name,
		Short: short,
		Long: long + "\n\nIt ends with 0 when nothing is wrong, 1 with a fault or a warning, and 2 when that\n" +
			"could not be told.",
		Example: "  kube-ipvs-proxy " + name + " --config /var/lib/kube-proxy/config.conf\n" +
			"  kube-ipvs-proxy " + name + " --manifests /etc/services --cluster-cidr 10.244.0.0/16\n" +
			"  kube-ipvs-proxy " + name + " -o json",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output, "text", "json"); err != nil {
				return err
			}
			s, err := sceneOf(cmd, raw)
			if err != nil {
				return err
			}
			defer s.close()
			found := explain.Diagnose(s.facts(cmd.Context(), probes))
			if err := printFindings(colourful(cmd.OutOrStdout()), output, found); err != nil {
				return err
			}
			return findingsError(found)
		},
	}
	toolFlags(cmd, &raw, "healthz-bind-address", "accept-input", "node-port-range")
	cmd.Flags().StringVarP(&output, "output", "o", output, "text or json")
	completeFlags(cmd, &raw, map[string][]cobra.Completion{"output": {"text", "json"}})
	return cmd
}

// facts collects what the doctor judges.
func (s *scene) facts(ctx context.Context, probes bool) explain.Facts {
	observed, rules := s.observe(ctx)
	f := explain.Facts{
		Differences: explain.Compare(s.Desired, observed), Unknown: observed.Unknown,
		Policies: rules.Policies, OtherMode: rules.OtherMode, AcceptInput: s.options.AcceptInput,
	}
	if flows, err := conntrackFlows(); err == nil {
		f.Differences = append(f.Differences, explain.StaleFlows(s.Desired, flows)...)
	}
	if probes {
		f.Missing = missing(ctx, observed.IPv6)
		if s.mixed != nil {
			f.Missing = append(f.Missing, explain.Finding{Level: explain.Fault, What: s.mixed.Error()})
		}
		f.Agent, f.AgentFine = askAgent(ctx, s.options)
	}
	s.objectFacts(&f)
	s.settingFacts(ctx, &f)
	for _, addr := range s.boundExternal(observed) {
		f.BoundExternal = append(f.BoundExternal, addr.String())
	}
	return f
}

// missing is what run would miss at its start.
func missing(ctx context.Context, ipv6 bool) []explain.Finding {
	err := host.Preflight(ctx, host.Probes(host.ProbeOptions{IPv6: ipv6}))
	if err == nil {
		return []explain.Finding{{Level: explain.OK, What: "the node has what the proxy needs"}}
	}
	lacks, ok := errors.AsType[host.PreflightError](err)
	if !ok {
		return []explain.Finding{{Level: explain.Fault, What: err.Error(), Next: "run doctor as root on the node"}}
	}
	var found []explain.Finding
	for _, m := range lacks {
		found = append(found, explain.Finding{Level: explain.Fault, What: "the node lacks " + m.Name + ": " + m.Err.Error(), Next: m.Fix})
	}
	return found
}

// objectFacts are problems of Services.
func (s *scene) objectFacts(f *explain.Facts) {
	for _, p := range s.source.problems() {
		f.Problems = append(f.Problems, p.String())
	}
	for _, name := range s.source.Names() {
		for _, p := range s.Problems[name] {
			f.Problems = append(f.Problems, p.String())
		}
	}
	for _, c := range s.Desired.Conflicts() {
		losers := make([]string, len(c.Losers))
		for i, l := range c.Losers {
			losers[i] = l.String()
		}
		f.Conflicts = append(f.Conflicts, fmt.Sprintf("%s is served for %s and not for %s", c.Key, c.Winner, strings.Join(losers, ", ")))
	}
	for _, name := range s.Desired.LocalOnly() {
		f.LocalOnly = append(f.LocalOnly, name.String())
	}
}

func printFindings(w io.Writer, output string, found []explain.Finding) error {
	if output == "json" {
		return printJSON(w, found)
	}
	const column = 9
	for _, f := range found {
		indent := strings.Repeat(" ", column)
		printHanging(w, fmt.Sprintf("%-*s", column, f.Level), indent, f.What)
		if f.Next != "" {
			printHanging(w, indent, indent, "next: "+f.Next)
		}
	}
	return nil
}

// findingsError is nil when nothing is wrong.
func findingsError(found []explain.Finding) error {
	levels := map[explain.Level]int{}
	for _, f := range found {
		levels[f.Level]++
	}
	if n, m := levels[explain.Fault], levels[explain.Warning]; n+m > 0 {
		return exitError{1, fmt.Errorf("%s, %s", count(n, "fault"), count(m, "warning"))}
	}
	return nil
}
