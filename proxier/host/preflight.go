package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"

	vnetlink "github.com/vishvananda/netlink"

	"kube-ipvs-proxy/ipvsutil"
)

// Probe asks whether the node has one thing that the proxy cannot do without.
type Probe struct {
	Name  string // what is missing when Check fails, such as "ip_vs"
	Fix   string // what an operator does about it
	Check func(ctx context.Context) error
}

// Missing is one probe that failed.
type Missing struct {
	Name, Fix string
	Err       error
}

// PreflightError lists what the node lacks.
type PreflightError []Missing

// Error is one line, such as "node lacks ip_vs: kernel has no IPVS: no such file or
// directory (modprobe ip_vs)".
func (e PreflightError) Error() string {
	parts := make([]string, len(e))
	for i, m := range e {
		parts[i] = fmt.Sprintf("%s: %v (%s)", m.Name, m.Err, m.Fix)
	}
	return "node lacks " + strings.ReplaceAll(strings.Join(parts, "; "), "\n", ", ")
}

// Unwrap gives the reasons.
func (e PreflightError) Unwrap() []error {
	errs := make([]error, len(e))
	for i, m := range e {
		errs[i] = m.Err
	}
	return errs
}

// Preflight runs all probes and returns a PreflightError of those that failed, or nil.
func Preflight(ctx context.Context, probes []Probe) error {
	var missing PreflightError
	for _, p := range probes {
		if err := p.Check(ctx); err != nil {
			missing = append(missing, Missing{Name: p.Name, Fix: p.Fix, Err: err})
		}
	}
	if missing == nil {
		return nil
	}
	return missing
}

// ProbeOptions say what the proxy will use.
type ProbeOptions struct {
	IPv6 bool // IPv6 Services are served
}

// Probes lists what the proxy needs. Asking lets the kernel load what it has as a
// module by itself, so LoadModules before is a help and no must.
func Probes(o ProbeOptions) []Probe {
	list := []Probe{
		{Name: "ip_vs", Fix: "modprobe ip_vs, or a kernel with CONFIG_IP_VS", Check: probeIPVS},
		{Name: "ip_set", Fix: "modprobe ip_set, or a kernel with CONFIG_IP_SET", Check: probeIPSet},
		{Name: "xt_set", Fix: "modprobe xt_set, or a kernel with CONFIG_NETFILTER_XT_SET", Check: probeSetMatch},
		{Name: "dummy", Fix: "modprobe dummy, or a kernel with CONFIG_DUMMY", Check: probeDummy},
		programs("iptables", "iptables", "iptables-restore"),
	}
	if o.IPv6 {
		list = append(list, programs("ip6tables", "ip6tables", "ip6tables-restore"))
	}
	return list
}

// programs probes for executables in PATH.
func programs(name string, files ...string) Probe {
	return Probe{Name: name, Fix: "install iptables 1.8 or later", Check: func(context.Context) error {
		var errs []error
		for _, f := range files {
			if _, err := exec.LookPath(f); err != nil {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}}
}

// probeDevice is the name of the device that probeDummy makes and deletes.
const probeDevice = "kube-ipvs-probe"

// probeDummy finds ipvsutil.Device there, or makes a dummy device and deletes it:
// there is no other way to ask, and the kernel loads the module for it.
func probeDummy(context.Context) error {
	if _, err := vnetlink.LinkByName(ipvsutil.Device); err == nil {
		return nil
	}
	attrs := vnetlink.NewLinkAttrs()
	attrs.Name = probeDevice
	link := &vnetlink.Dummy{LinkAttrs: attrs}
	// One that is there was left by a probe that was killed.
	if err := vnetlink.LinkAdd(link); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("kernel cannot make dummy devices: %w", err)
	}
	return vnetlink.LinkDel(link)
}

// probeIPVS asks for the netlink family of IPVS; the kernel loads ip_vs for it.
func probeIPVS(context.Context) error {
	if _, err := vnetlink.GenlFamilyGet("IPVS"); err != nil {
		return fmt.Errorf("kernel has no IPVS: %w", err)
	}
	return nil
}

// probeIPSet asks for the protocol version. Version 6 is that of every ipset since 2011.
func probeIPSet(context.Context) error {
	protocol, _, err := vnetlink.IpsetProtocol()
	if err != nil {
		return fmt.Errorf("kernel has no ipset: %w", err)
	}
	if protocol < 6 {
		return fmt.Errorf("ipset protocol version %d, want 6", protocol)
	}
	return nil
}
