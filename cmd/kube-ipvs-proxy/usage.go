package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kube-ipvs-proxy/proxier/config"
)

// usageWidth is the width of the flags' help in columns, usageIndent where what they
// mean begins.
const (
	usageWidth  = 79
	usageIndent = 8
)

// groupedUsage prints usage with the flags under the headings of their groups.
func groupedUsage(cmd *cobra.Command) error {
	w := cmd.OutOrStderr()
	fmt.Fprintf(w, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(w, "\nCommands:")
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(w, "  %-12s %s\n", c.Name(), c.Short)
			}
		}
	}
	for _, group := range append(config.Groups(), "") {
		printGroup(w, cmd.Flags(), group)
	}
	return nil
}

// printGroup prints the flags of one group; those without a group come under "Flags".
func printGroup(w io.Writer, all *pflag.FlagSet, group config.Group) {
	first := true
	all.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || config.GroupOf(f) != group {
			return
		}
		if first {
			first = false
			fmt.Fprintf(w, "\n%s:\n", headline(group))
		}
		printFlag(w, f)
	})
}

func headline(group config.Group) string {
	if group == "" {
		return "Flags"
	}
	return string(group)
}

// printFlag prints a flag and, in the lines below, what it means.
func printFlag(w io.Writer, f *pflag.Flag) {
	value, usage := pflag.UnquoteUsage(f)
	name := "--" + f.Name
	if f.Shorthand != "" {
		name = "-" + f.Shorthand + ", " + name
	}
	if value != "" {
		name += " " + value
	}
	if !slices.Contains([]string{"", "0", "0s", "false", "[]"}, f.DefValue) {
		usage += " (default " + f.DefValue + ")"
	}
	fmt.Fprintf(w, "  %s\n", name)
	for _, line := range wrap(usage, usageWidth-usageIndent) {
		fmt.Fprintf(w, "%*s%s\n", usageIndent, "", line)
	}
}

// wrap breaks text between words; a word that is longer has a line of its own.
func wrap(text string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last >= 0 && len(lines[last])+1+len(word) <= width {
			lines[last] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return lines
}
