package testbed

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"

	"kube-ipvs-proxy/e2e/probe"
)

// Host is a network namespace of the lab: the client, a node or a pod.
type Host struct {
	// Probe sends and answers from the host; its name is the host's.
	*probe.Probe
	// Node is the name of the node a pod runs on; empty for client and nodes.
	Node string

	ns     *namespace
	nl     *netlink.Handle
	addr   pair[netip.Addr]
	second pair[netip.Addr] // client and nodes only
}

func newHost(name string) (*Host, error) {
	ns, err := newNamespace()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	h := &Host{Probe: probe.New(name, ns.do), ns: ns}
	err = ns.try(func() (err error) {
		h.nl, err = netlink.NewHandle()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return h, h.quiet()
}

// Alone makes a host that is no part of a lab and connected to nobody. Close ends it.
func Alone(name string) (*Host, error) { return newHost(name) }

// Close ends a host that Alone made.
func (h *Host) Close() error { return h.close() }

// quiet brings lo up and turns off what would delay addresses or change routes
// behind the tests' back: duplicate address detection and redirects.
func (h *Host) quiet() error {
	for _, kind := range []string{"all", "default"} {
		for _, s := range []struct{ name, value string }{
			{"net/ipv6/conf/" + kind + "/accept_dad", "0"},
			{"net/ipv6/conf/" + kind + "/dad_transmits", "0"},
			{"net/ipv6/conf/" + kind + "/accept_redirects", "0"},
			{"net/ipv4/conf/" + kind + "/accept_redirects", "0"},
			{"net/ipv4/conf/" + kind + "/send_redirects", "0"},
		} {
			if err := h.SetSysctl(s.name, s.value); err != nil {
				return err
			}
		}
	}
	return h.up("lo")
}

// Addr is the host's main address.
func (h *Host) Addr(f Family) netip.Addr { return h.addr.of(f) }

// SecondAddr is the other address of the client or of a node, on a network of
// its own; pods have none.
func (h *Host) SecondAddr(f Family) netip.Addr { return h.second.of(f) }

// SetSysctl writes a sysctl of the host, named by its path below /proc/sys.
func (h *Host) SetSysctl(name, value string) error {
	err := h.ns.try(func() error {
		return os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0)
	})
	if err != nil {
		return fmt.Errorf("%s: sysctl %s=%s: %w", h.Name(), name, value, err)
	}
	return nil
}

// Sysctl reads a sysctl of the host.
func (h *Host) Sysctl(name string) (string, error) {
	var text []byte
	err := h.ns.try(func() (err error) {
		text, err = os.ReadFile(filepath.Join("/proc/sys", name))
		return err
	})
	if err != nil {
		return "", fmt.Errorf("%s: sysctl %s: %w", h.Name(), name, err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Exec runs a program on the host and returns what it printed, both streams.
func (h *Host) Exec(ctx context.Context, program string, args ...string) (string, error) {
	path, err := lookTool(program)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if strings.HasSuffix(program, "tables-save") {
		cmd.Stderr = nil // remarks on the other back end's tables come in the middle of a rule
	}
	if err := h.start(cmd); err != nil {
		return "", err
	}
	if err := cmd.Wait(); err != nil {
		return out.String(), fmt.Errorf("%s: %s %s: %w: %s", h.Name(), program, strings.Join(args, " "), err, strings.TrimSpace(out.String()))
	}
	return out.String(), nil
}

// Do runs f on a thread of the host: sockets that f makes and programs that it
// starts are the host's. Others wait meanwhile, so f must not.
func (h *Host) Do(f func() error) error { return h.ns.try(f) }

// start starts a program on the host. It is killed when the lab's process ends,
// however that happens.
func (h *Host) start(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := h.ns.try(cmd.Start); err != nil {
		return fmt.Errorf("%s: start %s: %w", h.Name(), cmd.Path, err)
	}
	return nil
}

// lookTool finds a program, also in the sbin folders that PATH may lack.
func lookTool(name string) (string, error) {
	path, err := exec.LookPath(name)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("program %s: %w", name, err)
}

func (h *Host) close() error {
	h.nl.Close()
	return h.ns.close()
}
