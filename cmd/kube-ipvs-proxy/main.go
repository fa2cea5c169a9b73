// Command kube-ipvs-proxy implements Kubernetes Services with the kernel's IPVS:
// the agent of one node, and the operator's commands beside it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// exitError carries the exit status of a command whose result is no plain failure.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string { return e.err.Error() }
func (e exitError) Unwrap() error { return e.err }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "kube-ipvs-proxy:", err)
	code := 1
	if exit, ok := errors.AsType[exitError](err); ok {
		code = exit.code
	}
	os.Exit(code)
}

func command() *cobra.Command {
	run := runCommand()
	root := &cobra.Command{
		Use:   "kube-ipvs-proxy",
		Short: "Kubernetes Services on the kernel's IPVS",
		Long: "kube-ipvs-proxy is the agent of one node. It binds every ClusterIP to kube-ipvs0,\n" +
			"programs IPVS virtual and real servers, and keeps masquerading and traffic policies\n" +
			"in a small static layer of iptables rules that match against ipsets.\n\n" +
			"Without a command it does what run does.",
		Example:       run.Example,
		Args:          cobra.NoArgs,
		RunE:          run.RunE,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.Flags().AddFlagSet(run.Flags())
	root.SetUsageFunc(groupedUsage)
	root.AddCommand(run, listCommand(), explainCommand(), doctorCommand(), statusCommand(), verifyCommand(), planCommand(), cleanupCommand(), versionCommand())
	return root
}
