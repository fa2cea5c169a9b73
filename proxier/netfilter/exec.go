package netfilter

import (
	"bytes"
	"context"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// lockWait is how long a program waits for the lock of the tables, in seconds. The
// nf_tables back end has no lock.
const lockWait = 5

// writeWait is the same for what the loop writes: changes of Services wait meanwhile, and
// the loop tries again soon.
const writeWait = 1

// commandTimeout ends a program that hangs. It is longer than the wait for the lock.
const commandTimeout = 15 * time.Second

// programs are the paths of one family's programs.
type programs struct {
	iptables, save, restore string
}

// findPrograms finds the programs of a family and back end.
func findPrograms(backend Backend, ipv6 bool) (programs, error) {
	base := "iptables"
	if ipv6 {
		base = "ip6tables"
	}
	if backend != BackendAuto {
		base += "-" + string(backend)
	}
	var p programs
	for _, f := range []struct {
		path *string
		name string
	}{
		{&p.iptables, base}, {&p.save, base + "-save"}, {&p.restore, base + "-restore"},
	} {
		path, err := lookPath(f.name)
		if err != nil {
			return programs{}, err
		}
		*f.path = path
	}
	return p, nil
}

// list reads the whole rule set of the family, in one process.
func (p programs) list(ctx context.Context) (listing, error) {
	out, _, err := run(ctx, "", p.save)
	if err != nil {
		return nil, err
	}
	return parseListing(out), nil
}

// write gives input to iptables-restore. Each table is changed at once or not at all.
func (p programs) write(ctx context.Context, input string) error {
	_, _, err := run(ctx, input, p.restore, "-w", strconv.Itoa(writeWait), "--noflush")
	return err
}

// run runs a program to its end, or until the context or commandTimeout is over, and
// returns what it printed.
func run(ctx context.Context, stdin string, program string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	var out, errOut bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errOut
	cmd.WaitDelay = time.Second // a child that keeps the pipes open is not waited for
	err = cmd.Run()
	if err == nil {
		return out.String(), errOut.String(), nil
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	said := strings.Join(strings.Fields(errOut.String()), " ")
	return "", "", &CommandError{Program: program, Stderr: said, Err: err, Kind: kindOf(said)}
}
