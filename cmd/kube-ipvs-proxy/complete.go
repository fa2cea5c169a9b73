package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/plan"
)

// completeLimit is how long somebody who pressed the tab key waits.
const completeLimit = 3 * time.Second

// serviceNames are those that a shell offers: what the agent knows, or what the flags
// given so far lead to; none when neither answers in time.
func serviceNames(ctx context.Context, cmd *cobra.Command, raw *config.Raw) []plan.ServiceName {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, completeLimit)
	defer cancel()
	var names []plan.ServiceName
	if !slices.ContainsFunc(runFlagNames(raw), cmd.Flags().Changed) && tellAgent(ctx, namesRoute, &names) == nil {
		return names
	}
	_, options, err := configure(cmd.Flags(), *raw)
	if err != nil {
		return nil
	}
	source, err := openSource(ctx, options, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil
	}
	for !source.Synced() {
		select {
		case <-ctx.Done():
			return nil
		case <-source.Changed():
		}
	}
	for _, name := range source.Names() {
		if service, _ := source.Service(name); service != nil {
			names = append(names, name)
		}
	}
	return names
}

// completeService offers NAMESPACE/NAME for the first argument.
func completeService(raw *config.Raw) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return serviceWords(cmd, raw, begun), cobra.ShellCompDirectiveNoFileComp
	}
}

func serviceWords(cmd *cobra.Command, raw *config.Raw, begun string) []cobra.Completion {
	var words []cobra.Completion
	for _, name := range serviceNames(cmd.Context(), cmd, raw) {
		if word := name.String(); strings.HasPrefix(word, begun) {
			words = append(words, word)
		}
	}
	return words
}

// completeFlags offers the values of flags.
func completeFlags(cmd *cobra.Command, raw *config.Raw, choices map[string][]cobra.Completion) {
	for flag, values := range choices {
		must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
	}
	if cmd.Flags().Lookup("service") != nil {
		must(cmd.RegisterFlagCompletionFunc("service", func(cmd *cobra.Command, _ []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return serviceWords(cmd, raw, begun), cobra.ShellCompDirectiveNoFileComp
		}))
	}
	if cmd.Flags().Lookup("namespace") != nil {
		must(cmd.RegisterFlagCompletionFunc("namespace", func(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			var namespaces []cobra.Completion
			for _, name := range serviceNames(cmd.Context(), cmd, raw) {
				namespaces = append(namespaces, name.Namespace)
			}
			slices.Sort(namespaces)
			return slices.Compact(namespaces), cobra.ShellCompDirectiveNoFileComp
		}))
	}
}

// must ends the program for a mistake in its own text, such as a flag that is not there.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
