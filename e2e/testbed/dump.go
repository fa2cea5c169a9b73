package testbed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ResultsDir is where dumps go if it is there: it outlives the machine.
const ResultsDir = "/results"

// dumpCommands show what a node's kernel has.
var dumpCommands = [][]string{
	{"ipvsadm", "-Ln"},
	{"ipvsadm", "-Lnc"},
	{"ipset", "save"},
	{"iptables-save"},
	{"ip6tables-save"},
	{"ip", "address"},
	{"ip", "rule"},
	{"ip", "-6", "rule"},
	{"ip", "route", "show", "table", "all"},
	{"ip", "-6", "route", "show", "table", "all"},
	{"conntrack", "-L"},
	{"conntrack", "-L", "-f", "ipv6"},
	{"nstat", "-as"},
}

// Dump writes what a node's kernel has and what its proxy said into a file and
// returns its path and text. A command that fails is part of the text.
func (l *Lab) Dump(node string) (path, text string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var b strings.Builder
	fmt.Fprintf(&b, "#### log of the proxy\n%s\n", strings.Join(l.Proxy(node).Log().Last(40, nil), "\n"))
	for _, c := range dumpCommands {
		out, err := l.Host(node).Exec(ctx, c[0], c[1:]...)
		fmt.Fprintf(&b, "#### %s\n%s\n", strings.Join(c, " "), strings.TrimRight(out, "\n"))
		if err != nil {
			fmt.Fprintf(&b, "%v\n", err)
		}
	}
	dir := ResultsDir
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		dir = os.TempDir()
	}
	f, err := os.CreateTemp(dir, "dump-"+node+"-*.txt")
	if err != nil {
		return "", b.String(), err
	}
	_, err = f.WriteString(b.String())
	return filepath.Clean(f.Name()), b.String(), errors.Join(err, f.Close())
}
