package main

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kube-ipvs-proxy/proxier/config"
	"kube-ipvs-proxy/proxier/explain"
	"kube-ipvs-proxy/proxier/plan"
)

func explainCommand() *cobra.Command {
	raw := config.Defaults()
	from, to, output := "", "", "text"
	cmd := &cobra.Command{
		Use:   "explain NAMESPACE/NAME[:PORT]",
		Short: "Follow a packet to a Service, and say what becomes of it",
		Long: "explain follows a packet to each frontend of a Service (ClusterIP, externalIPs, load\n" +
			"balancer, NodePorts): how it comes to this node, which rule and set drops, refuses or\n" +
			"masquerades it, which server takes it, which endpoints are used and why others are\n" +
			"not, and which source address they see. Then it compares that way with the kernel,\n" +
			"and says what was seen of it: counters of rules, connections of IPVS and flows of\n" +
			"conntrack. The last line of each is the verdict. Without root it says what should be.\n\n" +
			"--from says where the client is: pod, node (a process on this node), outside, or an\n" +
			"IP address. Without it ClusterIPs are asked by a pod, the others from outside.",
		Example: "  kube-ipvs-proxy explain shop/web\n" +
			"  kube-ipvs-proxy explain shop/web:http --from 10.244.1.5\n" +
			"  kube-ipvs-proxy explain shop/web --from outside --to 203.0.113.7\n" +
			"  kube-ipvs-proxy explain shop/web --from node -o json",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkOutput(output, "text", "json"); err != nil {
				return err
			}
			q, err := parseQuestion(args[0], to)
			if err != nil {
				return err
			}
			s, err := sceneOf(cmd, raw)
			if err != nil {
				return err
			}
			defer s.close()
			if q.From, err = s.client(from); err != nil {
				return err
			}
			if err := s.ask(&q); err != nil {
				return err
			}
			observed, rules := s.observe(cmd.Context())
			node := s.explainNode(observed)
			if flows, err := conntrackFlows(); err == nil {
				node.Differences = append(node.Differences, explain.StaleFlows(s.Desired, flows)...)
				node.Evidence = evidence(rules, flows)
			}
			return printPaths(colourful(cmd.OutOrStdout()), output, q, explain.Explain(q, node))
		},
	}
	toolFlags(cmd, &raw, "masquerade-all")
	f := cmd.Flags()
	f.StringVar(&from, "from", "", "`client`: pod, node, outside or an IP address")
	f.StringVar(&to, "to", "", "only the frontends with this `address`")
	f.StringVarP(&output, "output", "o", output, "text or json")
	cmd.ValidArgsFunction = completeService(&raw)
	completeFlags(cmd, &raw, map[string][]cobra.Completion{"from": {"pod", "node", "outside"}, "output": {"text", "json"}})
	return cmd
}

// parseQuestion reads NAMESPACE/NAME[:PORT].
func parseQuestion(arg, to string) (explain.Question, error) {
	var q explain.Question
	name, port, _ := strings.Cut(arg, ":")
	namespace, name, ok := strings.Cut(name, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return q, exitError{2, fmt.Errorf("%q: must be NAMESPACE/NAME or NAMESPACE/NAME:PORT, such as default/web:http", arg)}
	}
	q.Name, q.Port = plan.ServiceName{Namespace: namespace, Name: name}, port
	if to != "" {
		addr, err := netip.ParseAddr(to)
		if err != nil {
			return q, exitError{2, fmt.Errorf("--to %q: must be an IP address", to)}
		}
		q.To = addr
	}
	return q, nil
}

// client finds out what kind of client an address is.
func (s *scene) client(from string) (explain.Client, error) {
	switch origin := explain.Origin(from); origin {
	case "", explain.FromPod, explain.FromNode, explain.FromOutside:
		return explain.Client{Origin: origin}, nil
	}
	addr, err := netip.ParseAddr(from)
	if err != nil {
		return explain.Client{}, exitError{2, fmt.Errorf("--from %q: must be pod, node, outside or an IP address", from)}
	}
	c := explain.Client{Origin: explain.FromOutside, Addr: addr}
	switch {
	case slices.Contains(s.Node.Addrs, addr) || s.Desired.Bound(addr):
		c.Origin = explain.FromNode
	case slices.ContainsFunc(s.options.ClusterCIDRs, func(p netip.Prefix) bool { return p.Contains(addr) }), s.isEndpoint(addr):
		c.Origin = explain.FromPod
	}
	return c, nil
}

func (s *scene) isEndpoint(addr netip.Addr) bool {
	for _, name := range s.source.Names() {
		_, endpoints := s.source.Service(name)
		if slices.ContainsFunc(endpoints, func(e plan.Endpoint) bool { return e.Addr.Addr() == addr }) {
			return true
		}
	}
	return false
}

// ask fills in the Service, or says why there is nothing to explain.
func (s *scene) ask(q *explain.Question) error {
	q.Service, q.Endpoints = s.source.Service(q.Name)
	q.Problems = s.Problems[q.Name]
	if q.Service == nil {
		return exitError{2, s.unknownService(q.Name, len(q.Endpoints) > 0)}
	}
	switch {
	case q.Service.Type == plan.ExternalName:
		return exitError{2, fmt.Errorf("service %s is of type ExternalName: it is an alias in DNS, and no proxy serves it", q.Name)}
	case len(q.Service.ClusterIPs) == 0:
		return exitError{2, fmt.Errorf("service %s is headless (no clusterIP): clients reach its pods directly, and no proxy serves it", q.Name)}
	}
	return nil
}

// unknownService names those that may be meant.
func (s *scene) unknownService(name plan.ServiceName, slices bool) error {
	text := fmt.Sprintf("no Service %s for this proxy", name)
	if slices {
		text += " (it has EndpointSlices: is it headless, or labelled for another proxy?)"
	}
	var all []plan.ServiceName
	for _, n := range s.source.Names() {
		if service, _ := s.source.Service(n); service != nil {
			all = append(all, n)
		}
	}
	if near := explain.Nearest(name, all); len(near) > 0 {
		words := make([]string, len(near))
		for i, n := range near {
			words[i] = n.String()
		}
		return errors.New(text + "; nearest: " + strings.Join(words, ", "))
	}
	return fmt.Errorf("%s; there are %d others", text, len(all))
}

// explainNode is what of the node decides.
func (s *scene) explainNode(observed explain.Observed) explain.Node {
	d := s.flags.Detector
	byInterface := d.Interface != ""
	return explain.Node{
		Desired: s.Desired, Node: s.Node, Plan: s.Plan,
		MasqueradeAll: s.options.MasqueradeAll,
		Detector:      [2]bool{byInterface || d.IPv4.IsValid(), byInterface || d.IPv6.IsValid()},
		Observed:      observed,
		Differences:   explain.Compare(s.Desired, observed),
	}
}

func printPaths(w io.Writer, output string, q explain.Question, paths []explain.Path) error {
	if len(paths) == 0 {
		return exitError{2, fmt.Errorf("service %s has no such frontend: --to, the port or the family of --from leave none", q.Name)}
	}
	if output == "json" {
		return printJSON(w, paths)
	}
	fmt.Fprintf(w, "Service %s: %s\n", q.Name, count(len(paths), "frontend"))
	for _, p := range q.Problems {
		printHanging(w, "", "  ", p.Part+": "+p.Reason)
	}
	for _, p := range paths {
		fmt.Fprintln(w)
		fmt.Fprint(w, p.Text())
	}
	return nil
}
