//go:build kernel

package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
)

// damage is something that another hand does to the kernel of a node.
type damage struct {
	name string
	do   func(h *testbed.Host, random *rand.Rand) error
	// journal: it takes entries out of sets, by which what is ours is known. Who does
	// that and ends the agent before it looked again is not foiled.
	journal bool
}

// programs is a damage by one line of a program.
func programs(lines ...string) damage {
	return damage{name: strings.Join(lines, "; "), do: func(h *testbed.Host, _ *rand.Rand) error {
		for _, line := range lines {
			if _, err := exec(h, strings.Fields(line)...); err != nil {
				return err
			}
		}
		return nil
	}}
}

func exec(h *testbed.Host, command ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return h.Exec(ctx, command[0], command[1:]...)
}

// damages is all that is tried.
func damages() []damage {
	flush := programs("ipset flush")
	flush.journal = true
	return []damage{
		programs("ipvsadm -C"),
		flush,
		programs("iptables -t nat -F"), programs("iptables -t mangle -F"), programs("iptables -F"),
		programs("ip6tables -t nat -F"), programs("ip6tables -t mangle -F"), programs("ip6tables -F"),
		programs("ip link del kube-ipvs0"),
		programs("ip link set kube-ipvs0 up", "ip link set kube-ipvs0 down"),
		programs("ip address flush dev kube-ipvs0"),
		programs("ip route flush table all proto 150"), programs("ip -6 route flush table all proto 150"),
		programs("ip rule del priority 98"), programs("ip -6 rule del priority 98"),
		{name: "a server is deleted", do: line("ipvsadm", "-Sn", "-A ", func(line string) []string { return ipvsadm("-D", line, 2) })},
		{name: "a server has another scheduler", do: line("ipvsadm", "-Sn", "-A ", func(line string) []string { return append(ipvsadm("-E", line, 2), "-s", "lc") })},
		{name: "a weight is another", do: line("ipvsadm", "-Sn", "-a ", func(line string) []string { return append(ipvsadm("-e", line, 4), "-m", "-w", "7") })},
		{name: "a real server is deleted", do: line("ipvsadm", "-Sn", "-a ", func(line string) []string { return ipvsadm("-d", line, 4) })},
		{name: "an entry is deleted", journal: true, do: line("ipset", "save", "add ", func(line string) []string {
			f := strings.Fields(line)
			return []string{"ipset", "del", f[1], f[2]}
		})},
	}
}

// ipvsadm makes a command of a line of ipvsadm -S: its first fields behind the verb, and
// the family of a mark.
func ipvsadm(verb, line string, fields int) []string {
	f := strings.Fields(line)
	command := append([]string{"ipvsadm", verb}, f[1:1+fields]...)
	if strings.Contains(line, " -6") {
		command = append(command, "-6")
	}
	return command
}

// line picks a random line of what a program lists, and runs what is made of it.
func line(program, arg, prefix string, command func(line string) []string) func(*testbed.Host, *rand.Rand) error {
	return func(h *testbed.Host, random *rand.Rand) error {
		out, err := exec(h, program, arg)
		if err != nil {
			return err
		}
		var lines []string
		for line := range strings.Lines(out) {
			if strings.HasPrefix(line, prefix) {
				lines = append(lines, line)
			}
		}
		if len(lines) == 0 {
			return fmt.Errorf("%s %s has no line %q", program, arg, prefix)
		}
		if _, err := exec(h, command(lines[random.IntN(len(lines))])...); err != nil && !gone(err) {
			return err
		}
		return nil
	}
}

// gone tells that the agent was quicker than the damage.
func gone(err error) bool {
	for _, text := range []string{"No such service", "No such destination", "Service not defined", "it's not added"} {
		if strings.Contains(err.Error(), text) {
			return true
		}
	}
	return false
}
