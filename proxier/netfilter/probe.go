package netfilter

import (
	"context"
	"fmt"
	"strings"

	"github.com/coreos/go-iptables/iptables"
)

// Features is what the host's iptables and kernel can do.
type Features struct {
	// Version is that of iptables, such as "1.8.9".
	Version string
	// RandomFully and IPVSMatch are values for the Flags of that name.
	RandomFully, IPVSMatch bool
}

// Probe asks the programs of a back end. It starts two processes, loads xt_ipvs when
// the kernel has it, and changes no rule.
func Probe(ctx context.Context, backend Backend) (Features, error) {
	p, err := findPrograms(backend, false)
	if err != nil {
		return Features{}, err
	}
	ipt, err := iptables.New(iptables.Path(p.iptables))
	if err != nil {
		return Features{}, fmt.Errorf("%s --version: %w", p.iptables, err)
	}
	major, minor, patch := ipt.GetIptablesVersion()
	f := Features{
		Version:     fmt.Sprintf("%d.%d.%d", major, minor, patch),
		RandomFully: ipt.HasRandomFully(),
	}
	// A test without effect: a match that the kernel lacks is only warned about.
	_, said, err := run(ctx, "*mangle\n:KIPVS-PROBE - [0:0]\n-A KIPVS-PROBE -m ipvs --ipvs\nCOMMIT\n",
		p.restore, "-w", fmt.Sprint(lockWait), "--noflush", "--test")
	if ctx.Err() != nil {
		return Features{}, ctx.Err()
	}
	f.IPVSMatch = err == nil && !strings.Contains(said, "missing kernel module")
	return f, nil
}
