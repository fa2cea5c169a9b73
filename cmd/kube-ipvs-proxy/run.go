package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"kube-ipvs-proxy/proxier/config"
)

func runCommand() *cobra.Command {
	raw := config.Defaults()
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve the Services of this node until it is told to end",
		Long: "run programs the kernel and follows every change. When it ends, the kernel keeps\n" +
			"what it has and traffic goes on; the next run adopts it.",
		Example: "  kube-ipvs-proxy run --manifests /etc/services --cluster-cidr 10.244.0.0/16\n" +
			"  kube-ipvs-proxy run --manifests /etc/services --once",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			options, err := raw.Validate()
			if err != nil {
				return exitError{2, err}
			}
			return run(cmd.Context(), options)
		},
	}
	addFlags(cmd.Flags(), &raw)
	return cmd
}

// run builds the agent and lets it work until the context ends.
func run(ctx context.Context, options config.Options) error {
	log := logger(options)
	log.Info("starting", "version", versionText(), "node", options.NodeName)
	if err := prepare(ctx, options, log); err != nil {
		return err
	}
	agent, err := build(ctx, options, log)
	if err != nil {
		return err
	}
	defer agent.close()
	if options.Once {
		ops, err := agent.proxier.Once(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("kernel equals the plan (%d operations)\n", ops)
		return nil
	}
	if err := agent.proxier.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	log.Info("ended; the kernel keeps what it has")
	return nil
}

func logger(options config.Options) *slog.Logger {
	level := slog.LevelInfo
	if options.Debug {
		level = slog.LevelDebug
	}
	opts := &slog.HandlerOptions{Level: level}
	if options.JSONLog {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts))
}
