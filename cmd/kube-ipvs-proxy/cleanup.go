package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/netfilter"
)

// forKubeProxy is the value of --for that leaves the node to kube-proxy's ipvs mode.
const forKubeProxy = "kube-proxy-ipvs"

func cleanupCommand() *cobra.Command {
	raw := config.Defaults()
	dryRun, successor := false, ""
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove what this proxy has put into the kernel, and nothing else",
		Long: "cleanup removes addresses, virtual servers, rules, sets, the device kube-ipvs0 and\n" +
			"the policy rules of this proxy, of IPv4 and IPv6. Servers, sets, rules and addresses\n" +
			"of others stay. Twice is once: after an error or a signal run it again.\n\n" +
			"Stop the agent first: a running one puts everything back. With\n" +
			"--for=" + forKubeProxy + " what kube-proxy's ipvs mode takes over stays: servers, bound\n" +
			"addresses, and sets and chains of its names; traffic to ClusterIPs goes on meanwhile.",
		Example: "  kube-ipvs-proxy cleanup --dry-run\n" +
			"  kube-ipvs-proxy cleanup\n" +
			"  kube-ipvs-proxy cleanup --for=" + forKubeProxy,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if successor != "" && successor != forKubeProxy {
				return exitError{2, fmt.Errorf("--for %q: must be %s or nothing", successor, forKubeProxy)}
			}
			_, options, err := configure(cmd.Flags(), raw)
			if err != nil {
				return err
			}
			return cleanup(cmd.Context(), cmd.OutOrStdout(), options, dryRun, successor)
		},
	}
	toolFlags(cmd, &raw, "masquerade-bit", "iptables-masquerade-bit", "iptables-backend")
	for _, name := range shownToTools[1:] { // no objects are read
		cmd.Flags().Lookup(name).Hidden = true
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be removed, object by object, and remove nothing")
	cmd.Flags().StringVar(&successor, "for", "", "`successor` that takes the node over: "+forKubeProxy)
	return cmd
}

// cleanup removes what is ours, in an order that at every point leaves traffic either
// served as before or not served by us at all.
func cleanup(ctx context.Context, out io.Writer, options config.Options, dryRun bool, successor string) error {
	c, err := openCleaner(ctx, options)
	if err != nil {
		return err
	}
	defer c.close()
	if answer, healthy := askAgent(ctx, options); healthy {
		c.note("an agent runs on this node (" + answer + "): stop it, or it puts everything back")
	}
	leave := netfilter.LeaveNothing
	if successor == forKubeProxy {
		leave = netfilter.LeaveToKubeProxy
	}
	if err := c.look(ctx, leave); err != nil {
		return err
	}
	steps := c.steps()
	if leave == netfilter.LeaveToKubeProxy {
		steps = c.handoverSteps()
	}
	return runSteps(ctx, out, steps, dryRun)
}

// runSteps does the steps that have something to do, one after the other, or shows
// them. The first that fails is the last: those after it rest on it.
func runSteps(ctx context.Context, out io.Writer, steps []step, dryRun bool) error {
	nothing := true
	for _, s := range steps {
		for _, note := range s.notes {
			fmt.Fprintln(out, note)
		}
		if len(s.objects) == 0 {
			continue
		}
		nothing = false
		if dryRun {
			for _, o := range s.objects {
				fmt.Fprintf(out, "would %s %s\n", s.verb, o)
			}
			continue
		}
		if err := s.do(ctx); err != nil {
			return fmt.Errorf("%s %s: %w (mend that and run cleanup again; it goes on where it stopped)", s.verb, s.kind, err)
		}
		fmt.Fprintf(out, "%s: %d\n", s.kind, len(s.objects))
	}
	if nothing {
		fmt.Fprintln(out, "nothing of kube-ipvs-proxy is here")
	}
	return nil
}
