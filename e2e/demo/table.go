package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"kube-ipvs-proxy/e2e/probe"
	"kube-ipvs-proxy/e2e/testbed"
)

// request is one line of a table: a host asks an address several times.
type request struct {
	from, what, to string
}

// tries is how often each request is made, so that every real server has its turn.
const tries = 12

type table struct{ w *tabwriter.Writer }

func newTable() *table {
	t := &table{tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)}
	fmt.Fprintln(t.w, "  FROM\tTO\tANSWERED BY\tSOURCE SEEN\tWHAT IT SHOWS")
	return t
}

func (t *table) print() error { return t.w.Flush() }

// ask makes the requests and adds a line that sums them up.
func (d *demo) ask(t *table, r request) {
	to := netip.MustParseAddrPort(r.to)
	results := d.lab.Host(r.from).Many(probe.Call{Protocol: probe.TCP, To: to}, tries, 1)
	who, sources := map[string]bool{}, map[string]bool{}
	for _, result := range results {
		if result.Outcome != probe.OK {
			who[string(result.Outcome)] = true
			continue
		}
		who[result.Who] = true
		sources[d.nameOf(result.Source.Addr())] = true
	}
	fmt.Fprintf(t.w, "  %s\t%s\t%s\t%s\t%s\n", r.from, r.to, list(who), cmp.Or(list(sources), "-"), r.what)
}

func list(set map[string]bool) string {
	return strings.Join(slices.Sorted(maps.Keys(set)), " ")
}

// nameOf says whose address it is: "10.244.1.5 (c1)".
func (d *demo) nameOf(addr netip.Addr) string {
	f := testbed.FamilyOf(addr)
	for _, name := range []string{
		testbed.Client, testbed.PodC1, testbed.PodL1, testbed.PodL2, testbed.PodRm, testbed.PodR3,
	} {
		if d.lab.Host(name).Addr(f) == addr {
			return fmt.Sprintf("%s (%s)", addr, name)
		}
	}
	for _, node := range d.lab.Nodes() {
		if slices.Contains(node.NodeAddrs(f), addr) {
			return fmt.Sprintf("%s (%s)", addr, node.Name())
		}
	}
	return addr.String()
}
