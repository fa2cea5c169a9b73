package model

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/e2e/testbed"
)

// Dump is all that the kernel of a host has of ours but the rules, in sorted lines. The
// numbers of marks depend on what came first, so a mark is named by the frontends that
// lead to it.
func Dump(h *testbed.Host) (string, error) {
	d := &dumper{host: h}
	sets := d.run("ipset", "save")
	d.servers(d.run("ipvsadm", "-Sn"), marksOf(sets))
	d.sets(sets)
	if d.err == nil {
		d.err = h.Do(d.addresses)
	}
	slices.Sort(d.lines)
	return strings.Join(d.lines, "\n"), d.err
}

// DumpRules are the rules of both families, which are the same whatever is served.
func DumpRules(h *testbed.Host) (string, error) {
	d := &dumper{host: h}
	d.rules("iptables", d.run("iptables-save"))
	d.rules("ip6tables", d.run("ip6tables-save"))
	slices.Sort(d.lines)
	return strings.Join(d.lines, "\n"), d.err
}

type dumper struct {
	host  *testbed.Host
	lines []string
	err   error
}

// run returns what a program says; after a failure nothing.
func (d *dumper) run(program string, args ...string) string {
	if d.err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out, err := d.host.Exec(ctx, program, args...)
	d.err = err
	return out
}

func (d *dumper) add(format string, args ...any) {
	d.lines = append(d.lines, strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// addresses are those bound and captured, and the policy rules. It runs on the host's
// thread.
func (d *dumper) addresses() error {
	handle, err := netlink.NewHandle()
	if err != nil {
		return err
	}
	defer handle.Close()
	if link, err := handle.LinkByName("kube-ipvs0"); err == nil {
		addrs, err := handle.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return err
		}
		for _, a := range addrs {
			d.add("address %v", a.IPNet)
		}
	}
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		rules, err := handle.RuleList(family)
		if err != nil {
			return err
		}
		for _, r := range rules {
			d.add("rule %d %v mark %#x", family, r, r.Mark)
		}
		routes, err := handle.RouteListFiltered(family, &netlink.Route{Protocol: 150, Table: unix.RT_TABLE_UNSPEC},
			netlink.RT_FILTER_PROTOCOL|netlink.RT_FILTER_TABLE)
		if err != nil {
			return err
		}
		for _, r := range routes {
			d.add("route %v table %d type %d", r.Dst, r.Table, r.Type)
		}
	}
	return nil
}

var shortCircuit = regexp.MustCompile(`(?m)^add KIPVS-(6-)?SHORT-CIRCUIT (\S+) skbmark 0x([0-9a-f]+)`)

// marksOf names each mark by the entries that lead to it; its key has the family.
func marksOf(sets string) map[string]string {
	frontends := map[string][]string{}
	for _, m := range shortCircuit.FindAllStringSubmatch(sets, -1) {
		key := m[1] + m[3]
		frontends[key] = append(frontends[key], m[2])
	}
	names := map[string]string{}
	for key, of := range frontends {
		slices.Sort(of)
		names[key] = strings.Join(of, "+")
	}
	return names
}

var fwmark = regexp.MustCompile(`-f (\d+)( -6)?`)

// servers are those of IPVS, marks by their names.
func (d *dumper) servers(text string, marks map[string]string) {
	for line := range strings.Lines(text) {
		if m := fwmark.FindStringSubmatch(line); m != nil {
			var mark uint32
			if _, err := fmt.Sscan(m[1], &mark); err != nil {
				d.err = err
			}
			family := ""
			if m[2] != "" || strings.Contains(line, "-r [") {
				family = "6-"
			}
			line = strings.Replace(line, m[0], "-f "+marks[fmt.Sprintf("%s%x", family, mark)], 1)
		}
		d.add("ipvs %s", line)
	}
}

var growing = regexp.MustCompile(` (hashsize|bucketsize|initval|timeout) \S+`)

// sets: sizes of hashes grow with their use.
func (d *dumper) sets(text string) {
	for line := range strings.Lines(text) {
		if m := shortCircuit.FindStringSubmatch(line); m != nil {
			line = strings.Replace(line, m[3], "MARK", 1)
		}
		d.add("%s", growing.ReplaceAllString(line, ""))
	}
}

// rules are numbered within their chain.
func (d *dumper) rules(what, text string) {
	table, number := "", map[string]int{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "*"):
			table = line
		case strings.HasPrefix(line, ":"):
			name, _, _ := strings.Cut(line, " ")
			d.add("%s %s %s", what, table, name)
		case strings.HasPrefix(line, "-A "):
			chain := table + " " + strings.Fields(line)[1]
			number[chain]++
			d.add("%s %s %03d %s", what, chain, number[chain], line)
		}
	}
}

// Difference shows the lines that only one of two dumps has.
func Difference(want, got string) string {
	a, b := strings.Split(want, "\n"), strings.Split(got, "\n")
	slices.Sort(a)
	slices.Sort(b)
	var out []string
	for _, line := range a {
		if _, ok := slices.BinarySearch(b, line); !ok {
			out = append(out, "- "+line)
		}
	}
	for _, line := range b {
		if _, ok := slices.BinarySearch(a, line); !ok {
			out = append(out, "+ "+line)
		}
	}
	return strings.Join(out, "\n")
}
