package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/netfilter"
)

// The values of --for. The first leaves the node to kube-proxy's ipvs mode as that takes
// it over; the second removes everything once another mode serves the node.
const (
	forKubeProxy = "kube-proxy-ipvs"
	forOtherMode = "kube-proxy"
)

func cleanupCommand() *cobra.Command {
	raw := config.Defaults()
	dryRun, successor, wait := false, "", 10*time.Minute
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove what this proxy has put into the kernel, and nothing else",
		Long: "cleanup removes addresses, virtual servers, rules, sets, the device kube-ipvs0 and\n" +
			"the policy rules of this proxy, of IPv4 and IPv6. Servers, sets, rules and addresses\n" +
			"of others stay. Twice is once: after an error or a signal run it again.\n\n" +
			"Stop the agent first: a running one puts everything back. With\n" +
			"--for=" + forKubeProxy + " what kube-proxy's ipvs mode takes over stays: servers,\n" +
			"addresses, and sets and chains of its names; traffic goes on meanwhile. With\n" +
			"--for=" + forOtherMode + " nothing is removed before kube-proxy, in mode iptables or nftables,\n" +
			"has its rules here.",
		Example: "  kube-ipvs-proxy cleanup --dry-run\n" +
			"  kube-ipvs-proxy cleanup\n" +
			"  kube-ipvs-proxy cleanup --for=" + forKubeProxy,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if successor != "" && successor != forKubeProxy && successor != forOtherMode {
				return exitError{2, fmt.Errorf("--for %q: must be %s, %s or nothing", successor, forKubeProxy, forOtherMode)}
			}
			_, options, err := configure(cmd.Flags(), raw)
			if err != nil {
				return err
			}
			if successor == forOtherMode && !dryRun {
				if err := awaitOther(cmd.Context(), options, wait); err != nil {
					return err
				}
			}
			return cleanup(cmd.Context(), cmd.OutOrStdout(), options, dryRun, successor)
		},
	}
	toolFlags(cmd, &raw, "masquerade-bit", "iptables-masquerade-bit", "iptables-backend")
	for _, name := range shownToTools[1:] { // no objects are read
		cmd.Flags().Lookup(name).Hidden = true
	}
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "show what would be removed, object by object, and remove nothing")
	cmd.Flags().StringVar(&successor, "for", "", "`successor` that takes the node over: "+forKubeProxy+" or "+forOtherMode)
	cmd.Flags().DurationVar(&wait, "wait", wait, "how long --for="+forOtherMode+" waits for the successor's rules")
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

// awaitOther waits until another mode of kube-proxy serves the node: until then ours is
// the only way for its traffic.
func awaitOther(ctx context.Context, options config.Options, limit time.Duration) error {
	marks, err := netfilter.NewMarks(int(options.MasqueradeBit))
	if err != nil {
		return err
	}
	rules, err := netfilter.New(ctx, flags(options, marks))
	if err != nil {
		return err
	}
	pause := firstLook
	for deadline := time.Now().Add(limit); ; pause = min(2*pause, lastLook) {
		came, err := rules.Others().Came(ctx)
		if came || err != nil {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("after %v kube-proxy has no rules of mode iptables or nftables here: nothing was removed", limit)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// The first and the longest time between two looks: each starts a process a family, and
// kube-proxy needs the CPU and the tables meanwhile.
const (
	firstLook = 500 * time.Millisecond
	lastLook  = 5 * time.Second
)

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
