package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kube-ipvs-proxy/proxier/config"
)

// shownToTools are the flags of run that the help of the other commands shows. All of
// run's flags count there too, so that a command sees the node as run does.
var shownToTools = []string{"config", "manifests", "kubeconfig", "master", "hostname-override", "cluster-cidr"}

// toolFlags gives a command the flags of run; of those only shown, and named ones, are
// in its help.
func toolFlags(cmd *cobra.Command, raw *config.Raw, shown ...string) {
	addFlags(cmd.Flags(), raw)
	for _, name := range runFlagNames(raw) {
		f := cmd.Flags().Lookup(name)
		f.Annotations = nil // no group: the few that are left need no headings
		f.Hidden = !slices.Contains(shownToTools, name) && !slices.Contains(shown, name)
	}
	cmd.Long = paragraphs(cmd.Long + "\n\nWithout any flag of run the command asks the agent of this node, if one answers, " +
		"for what it has read and how it is configured. With one, all flags of run count here too (see run --help): " +
		"give those that the agent has, or the same --config.")
}

// paragraphs breaks each paragraph at the width of the help.
func paragraphs(text string) string {
	var broken []string
	for _, p := range strings.Split(text, "\n\n") {
		broken = append(broken, strings.Join(wrap(p, usageWidth), "\n"))
	}
	return strings.Join(broken, "\n\n")
}

// runFlagNames are the names of run's flags.
func runFlagNames(raw *config.Raw) []string {
	var names []string
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	scratch := *raw
	addFlags(f, &scratch)
	f.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return names
}
