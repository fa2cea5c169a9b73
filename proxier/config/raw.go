package config

import (
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	kubeproxy "k8s.io/kube-proxy/config/v1alpha1"
)

// Raw is what the operator wrote, in the file and in flags, with defaults filled in
// but not yet understood. Both documents are embedded; what stands beside them has
// flags only.
type Raw struct {
	kubeproxy.KubeProxyConfiguration
	IPVSProxyConfiguration

	ConfigFile    string // --config: file that takes the place of kube-proxy's flags
	WriteConfigTo string // --write-config-to: write the configuration there and end
	Master        string // --master: URL of the API server
	Once          bool   // --once: reconcile once and end
	InitOnly      bool   // --init-only: do what needs privileges and end
	Cleanup       bool   // --cleanup: remove what is ours from the kernel and end
	Version       bool   // --version: print the version and end

	healthPort, metricsPort int32 // deprecated flags
	notes                   []Note
	file                    string // that was read, and its text
	text                    []byte
}

// Note is something that the operator should know although nothing is refused.
type Note struct {
	Warning bool // it is likely to be a mistake
	Text    string
}

// Defaults are the values that flags have when they are not given.
func Defaults() Raw {
	r := Raw{IPVSProxyConfiguration: ownDefaults(), healthPort: healthPort, metricsPort: metricsPort}
	setDefaults(&r.KubeProxyConfiguration)
	return r
}

// Resolve returns the configuration that counts after f was parsed into r by
// AddFlags. Without --config that is r. With it, the file counts, and of the flags
// those of this proxy and the few of kube-proxy that are meant to stand beside a
// file. The error is about a file that cannot be read or decoded; r stays as it is,
// so that Resolve can be called again when the file changed.
func (r Raw) Resolve(f *pflag.FlagSet) (Raw, error) {
	if r.ConfigFile == "" {
		r.notes = slices.Clone(r.notes)
		r.completeFlags(f)
		return r, nil
	}
	text, err := os.ReadFile(r.ConfigFile)
	if err != nil {
		return Raw{}, fmt.Errorf("--config: %w", err)
	}
	resolved, err := Read(text)
	if err != nil {
		return Raw{}, fmt.Errorf("--config %s: %w", r.ConfigFile, err)
	}
	resolved.file, resolved.text = r.ConfigFile, text
	if err := resolved.override(f); err != nil {
		return Raw{}, err
	}
	return resolved, nil
}

// override sets in r, which was read from a file, what flags say that count beside it.
func (r *Raw) override(given *pflag.FlagSet) error {
	target := pflag.NewFlagSet("", pflag.ContinueOnError)
	r.AddFlags(target)
	var ignored []string
	for _, o := range options {
		from := given.Lookup(o.name)
		switch {
		case from == nil || !from.Changed:
		case !o.beside:
			ignored = append(ignored, "--"+o.name)
		default:
			if err := copyValue(target.Lookup(o.name), from); err != nil {
				return fmt.Errorf("--%s: %w", o.name, err)
			}
		}
	}
	if ignored != nil {
		r.note(true, "beside --config these flags do not count: %s", strings.Join(ignored, " "))
	}
	return nil
}

func copyValue(to, from *pflag.Flag) error {
	if list, ok := from.Value.(pflag.SliceValue); ok {
		if target, ok := to.Value.(pflag.SliceValue); ok {
			return target.Replace(list.GetSlice())
		}
	}
	return to.Value.Set(from.Value.String())
}

// completeFlags finds the addresses of the servers: what is not given follows the
// family of the bind address, which kube-proxy does for files only.
func (r *Raw) completeFlags(f *pflag.FlagSet) {
	everywhere, here := hosts(r.BindAddress)
	r.HealthzBindAddress = r.serverAddress(f, "healthz", r.HealthzBindAddress, everywhere, r.healthPort)
	r.MetricsBindAddress = r.serverAddress(f, "metrics", r.MetricsBindAddress, here, r.metricsPort)
}

// serverAddress is the address of one server; empty turns it off. The deprecated flag
// of its port counts unless the address was given with a port of its own. (In
// kube-proxy it never counts, because its default address has a port already.)
func (r *Raw) serverAddress(f *pflag.FlagSet, name, address string, host netip.Addr, port int32) string {
	if flag := name + "-port"; f.Changed(flag) {
		r.note(true, "--%s is deprecated: give the port with --%s-bind-address", flag, name)
	}
	given := f.Changed(name + "-bind-address")
	switch {
	case port == 0 || given && address == "":
		return ""
	case !given:
		address = host.String()
	}
	return withPort(address, port)
}

func (r *Raw) note(warning bool, format string, args ...any) {
	r.notes = append(r.notes, Note{Warning: warning, Text: fmt.Sprintf(format, args...)})
}
