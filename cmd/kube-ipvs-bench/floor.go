package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/report"
)

// saved is what ours had in the kernel, in the languages of the plain tools.
type saved struct{ sets, servers, addresses string }

// save reads what the kernel has now.
func (t *trial) save(ctx context.Context) (s saved, err error) {
	if s.sets, err = t.tool(ctx, "", "ipset", "save"); err != nil {
		return s, err
	}
	if s.servers, err = t.tool(ctx, "", "ipvsadm", "-Sn"); err != nil {
		return s, err
	}
	list, err := t.tool(ctx, "", "ip", "-o", "-4", "address", "show", "dev", "kube-ipvs0")
	for line := range strings.Lines(list) {
		if f := strings.Fields(line); len(f) > 3 {
			s.addresses += "address add " + f[3] + " dev kube-ipvs0\n"
		}
	}
	return s, err
}

// tool runs a program on the node and returns what it printed.
func (t *trial) tool(ctx context.Context, stdin, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := t.room.OnNode(cmd.Start); err != nil {
		return "", err
	}
	if err := cmd.Wait(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// tools puts what ours had into a fresh room with the plain tools.
func (t *trial) tools(ctx context.Context) error {
	state, ok := t.floor[t.world.Size()]
	if !ok {
		return errors.New("ours was not measured in this round, and there is nothing to repeat")
	}
	if err := t.prepare(ctx); err != nil {
		return err
	}
	if _, err := t.tool(ctx, "", "ip", "link", "add", "kube-ipvs0", "type", "dummy"); err != nil {
		return err
	}
	began := time.Now()
	var each []string
	for _, step := range []struct {
		stdin, name string
		args        []string
	}{
		{state.sets, "ipset", []string{"restore"}}, {state.servers, "ipvsadm", []string{"-R"}}, {state.addresses, "ip", []string{"-batch", "-"}},
	} {
		from := time.Now()
		if _, err := t.tool(ctx, step.stdin, step.name, step.args...); err != nil {
			return err
		}
		each = append(each, fmt.Sprintf("%s %.2f s", step.name, time.Since(from).Seconds()))
	}
	took := time.Since(began)
	t.noteTime(report.ListsRight, took)
	t.noteTime(report.StartRight, took)
	t.say("restored, %.1f s: %s", took.Seconds(), strings.Join(each, ", "))
	if err := t.sight.Verify(ctx, t.world); err != nil {
		return fmt.Errorf("the tools have not made what ours had: %w", err)
	}
	return nil
}
