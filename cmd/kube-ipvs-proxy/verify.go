package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/explain"
)

func verifyCommand() *cobra.Command {
	raw := config.Defaults()
	output, servedBy := "text", ""
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Compare the kernel with the plan, object by object",
		Long: "verify plans all Services as run does, reads the kernel with eyes of its own, and says\n" +
			"what differs and what that means for traffic. It writes nothing, and works beside a\n" +
			"running agent as well as without one. What changes while it looks is looked at twice.\n" +
			"With --served-by=" + forKubeProxy + " it judges a node of kube-proxy's ipvs mode, before the\n" +
			"node changes hands: what only this proxy has, and rules, are left out.\n\n" +
			"It ends with 0 when the kernel equals the plan, 1 when it differs, and 2 when that\n" +
			"could not be told.",
		Example: "  kube-ipvs-proxy verify --config /var/lib/kube-proxy/config.conf\n" +
			"  kube-ipvs-proxy verify --manifests /etc/services --cluster-cidr 10.244.0.0/16\n" +
			"  kube-ipvs-proxy verify --config config.conf --served-by=" + forKubeProxy + "\n" +
			"  kube-ipvs-proxy verify -o json | jq '.differences[].object'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(output, "text", "json"); err != nil {
				return err
			}
			if servedBy != "" && servedBy != forKubeProxy {
				return exitError{2, fmt.Errorf("--served-by %q: must be %s or nothing", servedBy, forKubeProxy)}
			}
			look, err := lookAround(cmd.Context(), cmd.Flags(), raw)
			if err != nil {
				return err
			}
			look.options.BindExternal = look.options.BindExternal || servedBy == forKubeProxy // as it does
			s, err := openScene(cmd.Context(), look)
			if err != nil {
				return err
			}
			defer s.close()
			s.shared = servedBy == forKubeProxy
			v, err := s.verify(cmd.Context())
			if err != nil {
				return exitError{2, err}
			}
			if err := v.print(colourful(cmd.OutOrStdout()), output); err != nil {
				return err
			}
			return v.err()
		},
	}
	toolFlags(cmd, &raw)
	cmd.Flags().StringVar(&servedBy, "served-by", "", "`proxy` that serves the node now: "+forKubeProxy)
	cmd.Flags().StringVarP(&output, "output", "o", output, "text or json")
	completeFlags(cmd, &raw, map[string][]cobra.Completion{"output": {"text", "json"}})
	return cmd
}

// checkOutput refuses a value of -o that is none of the choices.
func checkOutput(output string, choices ...string) error {
	if slices.Contains(choices, output) {
		return nil
	}
	return exitError{2, fmt.Errorf("-o %q: must be one of %v", output, choices)}
}

// verdict is what verify found.
type verdict struct {
	Result      string               `json:"result"` // equal, different or unknown
	Differences []explain.Difference `json:"differences"`
	Unknown     []unknown            `json:"unknown,omitempty"`
	// Compared counts what was compared.
	Compared counts `json:"compared"`
}

type unknown struct {
	Part   string `json:"part"`
	Reason string `json:"reason"`
}

type counts struct {
	Services       int `json:"services"`
	VirtualServers int `json:"virtualServers"`
	RealServers    int `json:"realServers"`
	SetEntries     int `json:"setEntries"`
	Addresses      int `json:"addresses"`
}

// secondLook is the time after which differences are looked at once more: an agent
// may be about to mend them, or to bring in a change that was only just made.
const secondLook = 500 * time.Millisecond

// verify compares the kernel with the plan.
func (s *scene) verify(ctx context.Context) (verdict, error) {
	o, _ := s.observe(ctx)
	all := s.compare(o)
	if slices.ContainsFunc(explain.Wrong(all), func(d explain.Difference) bool { return d.Kind != "rules" && d.Kind != "setting" }) {
		select {
		case <-ctx.Done():
			return verdict{}, context.Cause(ctx)
		case <-time.After(secondLook):
		}
		if err := s.again(ctx); err != nil {
			return verdict{}, err
		}
		s.lookAgain(ctx, &o)
		all = s.compare(o)
	}
	return s.judge(o, all), nil
}

// compare finds the differences that count.
func (s *scene) compare(o explain.Observed) []explain.Difference {
	all := explain.Compare(s.Desired, o)
	if s.shared {
		return explain.Shared(s.Desired, all)
	}
	return all
}

// lookAgain reads once more what takes no process to read.
func (s *scene) lookAgain(ctx context.Context, o *explain.Observed) {
	rules, rulesErr := o.RuleProblems, o.Unknown[explain.Rules]
	*o = s.observeQuietly(ctx)
	o.RuleProblems = rules
	if rulesErr != nil {
		o.Unknown[explain.Rules] = rulesErr
	}
}

// judge makes the verdict.
func (s *scene) judge(o explain.Observed, all []explain.Difference) verdict {
	v := verdict{Result: "equal", Differences: all, Compared: s.counts()}
	if v.Differences == nil {
		v.Differences = []explain.Difference{}
	}
	for _, part := range explain.Parts() {
		if err := o.Unknown[part]; err != nil {
			v.Unknown = append(v.Unknown, unknown{string(part), err.Error()})
		}
	}
	switch {
	case len(explain.Wrong(all)) > 0:
		v.Result = "different"
	case len(v.Unknown) > 0:
		v.Result = "unknown"
	}
	return v
}

func (s *scene) counts() counts {
	c := counts{Services: len(s.Desired.Names())}
	for _, server := range s.Desired.Servers() {
		c.VirtualServers++
		c.RealServers += len(server.RealServers)
	}
	for range s.Desired.Members() {
		c.SetEntries++
	}
	for range s.Desired.BoundAddrs() {
		c.Addresses++
	}
	for range s.Desired.CapturedAddrs() {
		c.Addresses++
	}
	return c
}

// count is a number with its word.
func count(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// err is nil for equal, else an error with the exit status.
func (v verdict) err() error {
	switch v.Result {
	case "different":
		n := len(explain.Wrong(v.Differences))
		return exitError{1, fmt.Errorf("the kernel differs from the plan: %s (\"plan\" shows what run would do)", count(n, "difference"))}
	case "unknown":
		return exitError{2, errors.New("not all could be read, so it cannot be told whether the kernel equals the plan")}
	}
	return nil
}

func (v verdict) print(w io.Writer, output string) error {
	if output == "json" {
		return printJSON(w, v)
	}
	for _, d := range v.Differences {
		printDifference(w, d)
	}
	for _, u := range v.Unknown {
		fmt.Fprintf(w, "%s: could not be read\n", u.Part)
		printWrapped(w, "  ", u.Reason)
	}
	c := v.Compared
	fmt.Fprintf(w, "%d Services: %d virtual servers, %d real servers, %d set entries, %d addresses\n",
		c.Services, c.VirtualServers, c.RealServers, c.SetEntries, c.Addresses)
	if v.Result == "equal" {
		fmt.Fprintln(w, "kernel equals the plan")
	}
	return nil
}

// printDifference takes two lines or more: what, and what it means.
func printDifference(w io.Writer, d explain.Difference) {
	head := d.Kind + " " + d.Object
	if d.Service != "" {
		head += " (" + d.Service + ")"
	}
	printHanging(w, "", "  ", head)
	mark := ""
	if d.Fine {
		mark = "fine: "
	}
	if d.Kind == "rules" {
		printWrapped(w, "  ", mark+d.Means)
		return
	}
	printWrapped(w, "  ", fmt.Sprintf("%swant %s, have %s: %s", mark, d.Want, d.Have, d.Means))
}

// printWrapped breaks text at the width of the help.
func printWrapped(w io.Writer, indent, text string) { printHanging(w, indent, indent, text) }

// printHanging is printWrapped with another indent from the second line on.
func printHanging(w io.Writer, first, rest, text string) {
	for i, line := range wrap(text, usageWidth-len(rest)) {
		if i == 0 {
			fmt.Fprintf(w, "%s%s\n", first, line)
		} else {
			fmt.Fprintf(w, "%s%s\n", rest, line)
		}
	}
}

func printJSON(w io.Writer, value any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}
