package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/report"
	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// options is the command line as one value.
type options struct {
	sizes    []world.Size
	subjects []string
	rounds   int
	repeats  int
	stream   time.Duration
	idle     time.Duration
	wait     time.Duration
	connects int

	ours, kubeProxy string
	oursArgs        []string
	kubeconfig      string
	output, results string
	notes           []string
}

const long = `kube-ipvs-bench starts Service proxies one after the other, each in a network
namespace of its own, serves generated Services to it from an API server in its
own memory, and measures from the kernel's state and with connections, not from
what the proxy says. It needs root and a kernel with IPVS; no cluster is touched
unless --kubeconfig names one.

Subjects:
  ours                  kube-ipvs-proxy
  ours-route            the same with --cluster-ip-binding=route
  kube-proxy-iptables   kube-proxy in each of its modes; changes are not held back
  kube-proxy-ipvs       (minSyncPeriod 1ms)
  kube-proxy-nftables
  floor                 ipset restore, ipvsadm -R and ip -batch of the state that
                        ours had in the same round: needs ours before it

The exit code is 0 when every subject was measured, 1 when one was not (the
others are all the same), 130 when it was interrupted.`

func command() *cobra.Command {
	o := options{}
	var sizes []string
	cmd := &cobra.Command{
		Use:   "kube-ipvs-bench",
		Short: "Measure how fast Service proxies program the kernel",
		Long:  long,
		Example: "  kube-ipvs-bench --sizes 100x4,1000x4 --kube-proxy ./kube-proxy\n" +
			"  kube-ipvs-bench --sizes 5000x4 --subjects ours,floor --rounds 3 -o json\n" +
			"  kube-ipvs-bench report bench-results/results.json",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(sizes); err != nil {
				return err
			}
			r, err := o.run(cmd.Context(), cmd.ErrOrStderr())
			if r != nil {
				r.Command = strings.Join(append([]string{"kube-ipvs-bench"}, os.Args[1:]...), " ")
				if err := o.show(r); err != nil {
					return err
				}
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&sizes, "sizes", []string{"100x4", "1000x4", "5000x4"}, "Services x endpoints of each")
	f.StringSliceVar(&o.subjects, "subjects", []string{report.Ours, report.Floor, report.NFTables, report.IPVS, report.IPTables}, "what is measured, in this order")
	f.IntVar(&o.rounds, "rounds", 3, "how often everything is done")
	f.IntVar(&o.repeats, "repeats", 5, "how often each change is made in a round")
	f.DurationVar(&o.stream, "stream", 30*time.Second, "how long 20 changes a second are made; 0: not")
	f.DurationVar(&o.idle, "idle", time.Minute, "how long a proxy is watched at rest; 0: not")
	f.DurationVar(&o.wait, "wait", 15*time.Minute, "how long a proxy may take for anything")
	f.IntVar(&o.connects, "connects", 200, "connections through the first, middle and last Service; 0: none")
	f.StringVar(&o.ours, "ours", "", "path of kube-ipvs-proxy (default: beside this program, else in PATH)")
	f.StringArrayVar(&o.oursArgs, "ours-arg", nil, "one more argument of kube-ipvs-proxy, like --refresh-period=0 (repeatable)")
	f.StringVar(&o.kubeProxy, "kube-proxy", "", "path of kube-proxy (default: beside this program, else in PATH)")
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "make the Services in this cluster, which should have few others, instead of serving them from memory; they are deleted again")
	f.StringVarP(&o.output, "output", "o", "table", "table, markdown, json, svg or promises")
	f.StringVar(&o.results, "results", "", "folder that gets table.txt, results.json, chart.svg and promises.md")
	f.StringArrayVar(&o.notes, "note", nil, "a line about the machine for the report (repeatable)")
	cmd.AddCommand(reportCommand())
	return cmd
}

// reportCommand shows results that are there.
func reportCommand() *cobra.Command {
	o := options{}
	cmd := &cobra.Command{
		Use:     "report FILE...",
		Short:   "Show results again, those of several runs together",
		Long:    "report reads the JSON of runs and shows it as one report: sizes that were run apart\nstand beside each other. Only figures of one run should be compared.",
		Example: "  kube-ipvs-bench report a/results.json b/results.json -o markdown",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, files []string) error {
			r, err := report.Read(files...)
			if err != nil {
				return err
			}
			return o.show(r)
		},
	}
	cmd.Flags().StringVarP(&o.output, "output", "o", "table", "table, markdown, json, svg or promises")
	cmd.Flags().StringVar(&o.results, "results", "", "folder that gets table.txt, results.json, chart.svg and promises.md")
	return cmd
}

// check reads what is more than a flag, before anything is done.
func (o *options) check(sizes []string) error {
	for _, text := range sizes {
		size, err := world.ParseSize(text)
		if err != nil {
			return err
		}
		o.sizes = append(o.sizes, size)
	}
	if o.rounds < 1 || o.repeats < 1 {
		return fmt.Errorf("--rounds %d, --repeats %d: want 1 or more", o.rounds, o.repeats)
	}
	if writers[o.output] == nil {
		return fmt.Errorf("--output %q: want table, markdown, json, svg or promises", o.output)
	}
	return checkSubjects(o.subjects)
}

// writers of a report by their name.
var writers = map[string]func(*report.Report, *os.File) error{
	"table":    func(r *report.Report, f *os.File) error { return r.Table(f) },
	"markdown": func(r *report.Report, f *os.File) error { return r.Markdown(f) },
	"json":     func(r *report.Report, f *os.File) error { return r.JSON(f) },
	"svg":      func(r *report.Report, f *os.File) error { return r.Chart(f, report.ListsRight, r.Drawn()) },
	"promises": func(r *report.Report, f *os.File) error { return r.Promises(f) },
}

// show writes the report on stdout and into the folder of results.
func (o *options) show(r *report.Report) error {
	write := writers[o.output]
	if write == nil {
		return fmt.Errorf("--output %q: want table, markdown, json, svg or promises", o.output)
	}
	if err := write(r, os.Stdout); err != nil {
		return err
	}
	if o.results == "" {
		return nil
	}
	if err := os.MkdirAll(o.results, 0o755); err != nil {
		return err
	}
	for name, kind := range map[string]string{"table.txt": "table", "results.json": "json", "chart.svg": "svg", "promises.md": "promises"} {
		if err := writeFile(filepath.Join(o.results, name), r, writers[kind]); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(path string, r *report.Report, write func(*report.Report, *os.File) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(r, f); err != nil {
		_ = f.Close()
		return fmt.Errorf("%s: %w", path, err)
	}
	return f.Close()
}
