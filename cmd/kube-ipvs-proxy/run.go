package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/netfilter"
	"kube-ipvs-proxy/proxier/watch"
)

func runCommand() *cobra.Command {
	raw := config.Defaults()
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve the Services of this node until it is told to end",
		Long: "run programs the kernel and follows every change. When it ends, the kernel keeps\n" +
			"what it has and traffic goes on; the next run adopts it.",
		Example: "  kube-ipvs-proxy run --config /var/lib/kube-proxy/config.conf\n" +
			"  kube-ipvs-proxy run --manifests /etc/services --cluster-cidr 10.244.0.0/16\n" +
			"  kube-ipvs-proxy run --manifests /etc/services --once",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if raw.Version {
				printVersion(cmd.OutOrStdout())
				return nil
			}
			read := func() (config.Raw, config.Options, error) { return configure(cmd.Flags(), raw) }
			resolved, options, err := read()
			switch {
			case err != nil:
				return err
			case resolved.WriteConfigTo != "":
				return writeConfig(resolved)
			}
			log, level := logger(options)
			log.Info("starting", "version", versionText(), "node", options.NodeName)
			tellNotes(log, options)
			if resolved.Cleanup {
				return cleanup(cmd.Context(), cmd.OutOrStdout(), options, false, "")
			}
			if resolved.InitOnly {
				return prepare(cmd.Context(), options, log)
			}
			ctx, cancel := context.WithCancelCause(cmd.Context())
			defer cancel(nil)
			return run(ctx, options, log, &follower{read: read, now: resolved, level: level, restart: cancel, log: log})
		},
	}
	addFlags(cmd.Flags(), &raw)
	return cmd
}

// writeConfig writes the configuration for --write-config-to.
func writeConfig(resolved config.Raw) error {
	text, err := resolved.Text()
	if err != nil {
		return err
	}
	if err := os.WriteFile(resolved.WriteConfigTo, text, 0o644); err != nil {
		return fmt.Errorf("--write-config-to: %w", err)
	}
	return nil
}

// startAction is the action of Events about the start, as in kube-proxy.
const startAction = "StartKubeProxy"

// run builds the agent and lets it work until the context ends; follower takes care
// of changes of the configuration file.
func run(ctx context.Context, options config.Options, log *slog.Logger, follower *follower) error {
	memory := saveMemory()
	if _, err := connect(options); err != nil {
		return err
	}
	// Before anything is set, so that a mixed host is left as it is.
	choice, err := chooseBackend(ctx, &options)
	if err != nil {
		return err
	}
	if err := prepare(ctx, options, log); err != nil {
		return err
	}
	features, err := netfilter.Probe(ctx, choice.Backend)
	if err != nil {
		return err
	}
	tellPreflight(ctx, choice, features, log)
	adjustOOMScore(options.OOMScoreAdj, log)
	agent, err := build(ctx, options, features, log)
	if err != nil {
		return err
	}
	defer agent.close()
	agent.monitor.memory = memory
	if options.Once {
		ops, err := agent.proxier.Once(ctx)
		if err != nil {
			return err
		}
		fmt.Printf("kernel equals the plan (%d operations)\n", ops)
		return nil
	}
	follower.adopt = func(options config.Options) { agent.adopt(ctx, options, log) }
	follower.took = agent.monitor.teller.took
	follower.took(follower.now)
	go agent.monitor.teller.serve(ctx, log)
	go follower.now.Follow(ctx, follower.changed)
	go agent.source.tell(ctx)
	go keepSettings(ctx, options, log)
	agent.showTraffic(options.TrafficMetrics, log)
	agent.monitor.run(ctx, follower.now, follower.restart)
	agent.source.events.Node(watch.Normal, "Starting", startAction, "")
	if options.WrongMode != "" {
		agent.source.events.Node(watch.Warning, "ModeIgnored", startAction,
			fmt.Sprintf("mode %q is configured; this proxy serves Services by IPVS", options.WrongMode))
	}
	err = agent.proxier.Run(ctx)
	if cause := context.Cause(ctx); errors.As(cause, new(exitError)) {
		return cause
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	log.Info("ended; the kernel keeps what it has")
	return nil
}

// logger returns the log and its level, which may change later.
func logger(options config.Options) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	level.Set(logLevel(options))
	opts := &slog.HandlerOptions{Level: level}
	if options.JSONLog {
		return slog.New(slog.NewJSONHandler(os.Stderr, opts)), level
	}
	return slog.New(slog.NewTextHandler(os.Stderr, opts)), level
}

func logLevel(options config.Options) slog.Level {
	if options.Debug {
		return slog.LevelDebug
	}
	return slog.LevelInfo
}
