package config

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
)

// sample is a value of an option: as the flag and the file have it, and what comes
// of it.
type sample struct {
	flag string
	file string // flag, when empty
	want any
}

func (s sample) inFile() string {
	if s.file == "" {
		return s.flag
	}
	return s.file
}

func prefixes(list ...string) []netip.Prefix {
	var p []netip.Prefix
	for _, s := range list {
		p = append(p, netip.MustParsePrefix(s))
	}
	return p
}

func yes(on bool) *bool { return &on }

// chosen are options with what the process makes of them: the default, and two values.
var chosen = []struct {
	flag   string
	get    func(Options) any
	byDef  any
	a, b   sample
	needed string // further arguments that give the option a meaning
}{
	{"manifests", func(o Options) any { return o.Manifests }, "", sample{flag: "/a", want: "/a"}, sample{flag: "/b", want: "/b"}, ""},
	{"kubeconfig", func(o Options) any { return o.API.Kubeconfig }, "", sample{flag: "/a", want: "/a"}, sample{flag: "/b", want: "/b"}, ""},
	{"kube-api-content-type", func(o Options) any { return o.API.ContentType }, "application/vnd.kubernetes.protobuf", sample{flag: "application/json", want: "application/json"}, sample{flag: "x/y", want: "x/y"}, ""},
	{"kube-api-qps", func(o Options) any { return o.API.QPS }, float32(5), sample{flag: "7.5", want: float32(7.5)}, sample{flag: "8", want: float32(8)}, ""},
	{"kube-api-burst", func(o Options) any { return o.API.Burst }, 10, sample{flag: "7", want: 7}, sample{flag: "8", want: 8}, ""},
	{"feature-gates", func(o Options) any { return o.NoExternalIPs }, false, sample{flag: "AllowServiceExternalIPs=false", file: "{AllowServiceExternalIPs: false}", want: true}, sample{flag: "AllowServiceExternalIPs=true,X=true", file: "{AllowServiceExternalIPs: true, X: true}", want: false}, ""},
	{"hostname-override", func(o Options) any { return o.NodeName }, hostname(), sample{flag: "' N1 '", want: "n1"}, sample{flag: "n2", want: "n2"}, ""},
	{"bind-address", func(o Options) any { return o.BindAddress }, netip.Addr{}, sample{flag: "192.0.2.1", want: netip.MustParseAddr("192.0.2.1")}, sample{flag: "2001:db8::1", want: netip.MustParseAddr("2001:db8::1")}, ""},
	{"oom-score-adj", func(o Options) any { return o.OOMScoreAdj }, -999, sample{flag: "-1000", want: -1000}, sample{flag: "1000", want: 1000}, ""},
	{"nodeport-addresses", func(o Options) any { return o.NodePorts }, []string(nil), sample{flag: "primary,10.0.0.0/8", file: "[primary, 10.0.0.0/8]", want: []string{"primary", "10.0.0.0/8"}}, sample{flag: "localhost", file: "[localhost]", want: []string{"localhost"}}, ""},
	{"proxy-mode", func(o Options) any { return o.WrongMode }, "", sample{flag: "iptables", want: "iptables"}, sample{flag: "ipvs", want: ""}, ""},
	{"ipvs-sync-period", func(o Options) any { return o.SyncPeriod }, 30 * time.Second, sample{flag: "1m", want: time.Minute}, sample{flag: "2m", want: 2 * time.Minute}, ""},
	{"ipvs-min-sync-period", func(o Options) any { return o.MinSyncPeriod }, time.Duration(0), sample{flag: "1s", want: time.Second}, sample{flag: "2s", want: 2 * time.Second}, ""},
	{"detect-local-mode", func(o Options) any { return o.LocalMode }, ClusterCIDR, sample{flag: "NodeCIDR", want: NodeCIDR}, sample{flag: "ClusterCIDR", want: ClusterCIDR}, ""},
	{"cluster-cidr", func(o Options) any { return o.ClusterCIDRs }, prefixes(), sample{flag: "10.1.2.3/8,fd00::/8", want: prefixes("10.0.0.0/8", "fd00::/8")}, sample{flag: "fd00::/8", want: prefixes("fd00::/8")}, ""},
	{"pod-bridge-interface", func(o Options) any { return o.Interface }, "", sample{flag: "cbr0", want: "cbr0"}, sample{flag: "fifteen-letters", want: "fifteen-letters"}, "detectLocalMode: BridgeInterface"},
	{"pod-interface-name-prefix", func(o Options) any { return o.Interface }, "", sample{flag: "veth", want: "veth"}, sample{flag: "cali", want: "cali"}, "detectLocalMode: InterfaceNamePrefix"},
	{"masquerade-all", func(o Options) any { return o.MasqueradeAll }, false, sample{flag: "true", want: true}, sample{flag: "false", want: false}, ""},
	{"iptables-masquerade-bit", func(o Options) any { return o.MasqueradeBit }, uint8(14), sample{flag: "0", want: uint8(0)}, sample{flag: "31", want: uint8(31)}, ""},
	{"ipvs-scheduler", func(o Options) any { return o.Scheduler }, "rr", sample{flag: "lc", want: "lc"}, sample{flag: "twos", want: "twos"}, ""},
	{"ipvs-strict-arp", func(o Options) any { return o.StrictARP }, false, sample{flag: "true", want: true}, sample{flag: "false", want: false}, ""},
	{"ipvs-tcp-timeout", func(o Options) any { return o.Timeouts.TCP }, time.Duration(0), sample{flag: "1h", want: time.Hour}, sample{flag: "2s", want: 2 * time.Second}, ""},
	{"ipvs-tcpfin-timeout", func(o Options) any { return o.Timeouts.TCPFin }, time.Duration(0), sample{flag: "1500ms", want: time.Second}, sample{flag: "2s", want: 2 * time.Second}, ""},
	{"ipvs-udp-timeout", func(o Options) any { return o.Timeouts.UDP }, time.Duration(0), sample{flag: "1h", want: time.Hour}, sample{flag: "2s", want: 2 * time.Second}, ""},
	{"conntrack-max-per-core", func(o Options) any { return o.Conntrack.MaxPerCore }, int32(32768), sample{flag: "0", want: int32(0)}, sample{flag: "5", want: int32(5)}, ""},
	{"conntrack-min", func(o Options) any { return o.Conntrack.Min }, int32(131072), sample{flag: "0", want: int32(0)}, sample{flag: "5", want: int32(5)}, ""},
	{"conntrack-tcp-timeout-established", func(o Options) any { return o.Conntrack.TCPEstablished }, 24 * time.Hour, sample{flag: "0s", want: time.Duration(0)}, sample{flag: "5s", want: 5 * time.Second}, ""},
	{"conntrack-tcp-timeout-close-wait", func(o Options) any { return o.Conntrack.TCPCloseWait }, time.Hour, sample{flag: "0s", want: time.Duration(0)}, sample{flag: "5s", want: 5 * time.Second}, ""},
	{"conntrack-tcp-be-liberal", func(o Options) any { return [2]bool{o.TCPBeLiberal, o.Conntrack.TCPBeLiberal} }, [2]bool{}, sample{flag: "true", want: [2]bool{true, true}}, sample{flag: "false", want: [2]bool{}}, ""},
	{"conntrack-udp-timeout", func(o Options) any { return o.Conntrack.UDP }, time.Duration(0), sample{flag: "30s", want: 30 * time.Second}, sample{flag: "5s", want: 5 * time.Second}, ""},
	{"conntrack-udp-timeout-stream", func(o Options) any { return o.Conntrack.UDPStream }, time.Duration(0), sample{flag: "30s", want: 30 * time.Second}, sample{flag: "5s", want: 5 * time.Second}, ""},
	{"healthz-bind-address", func(o Options) any { return o.HealthAddress }, "0.0.0.0:10256", sample{flag: "192.0.2.1", want: "192.0.2.1:10256"}, sample{flag: "[::1]:99", file: "'[::1]:99'", want: "[::1]:99"}, ""},
	{"metrics-bind-address", func(o Options) any { return o.MetricsAddress }, "127.0.0.1:10249", sample{flag: "0.0.0.0", want: "0.0.0.0:10249"}, sample{flag: "::", file: "'::'", want: "[::]:10249"}, ""},
	{"bind-address-hard-fail", func(o Options) any { return o.BindHardFail }, false, sample{flag: "true", want: true}, sample{flag: "false", want: false}, ""},
	{"profiling", func(o Options) any { return o.Profiling }, false, sample{flag: "true", want: true}, sample{flag: "false", want: false}, ""},
	{"logging-format", func(o Options) any { return o.JSONLog }, false, sample{flag: "json", want: true}, sample{flag: "text", want: false}, ""},
	{"v", func(o Options) any { return o.Debug }, false, sample{flag: "4", want: true}, sample{flag: "3", want: false}, ""},

	{"external-address-mode", func(o Options) any { return o.BindExternal }, false, sample{flag: "bind", want: true}, sample{flag: "capture", want: false}, ""},
	{"allow-external-cidrs", func(o Options) any { return o.AllowExternalCIDRs }, prefixes(), sample{flag: "10.1.1.1/8,fd00::/8", file: "[10.1.1.1/8, 'fd00::/8']", want: prefixes("10.0.0.0/8", "fd00::/8")}, sample{flag: "0.0.0.0/0", file: "[0.0.0.0/0]", want: prefixes("0.0.0.0/0")}, ""},
	{"cluster-ip-binding", func(o Options) any { return o.BindByRoute }, false, sample{flag: "route", want: true}, sample{flag: "address", want: false}, ""},
	{"drain-timeout", func(o Options) any { return o.DrainTimeout }, 15 * time.Minute, sample{flag: "0s", want: time.Duration(0)}, sample{flag: "-1s", want: -time.Second}, ""},
	{"refresh-period", func(o Options) any { return o.RefreshPeriod }, 10 * time.Minute, sample{flag: "0s", want: time.Duration(0)}, sample{flag: "1m", want: time.Minute}, ""},
	{"node-port-range", func(o Options) any { return o.MasqueradePorts }, [2]uint16{32768, 65535}, sample{flag: "", file: "''", want: [2]uint16{}}, sample{flag: "60000-65535", want: [2]uint16{1024, 59999}}, ""},
	{"accept-input", func(o Options) any { return o.AcceptInput }, true, sample{flag: "false", want: false}, sample{flag: "true", want: true}, ""},
	{"iptables-backend", func(o Options) any { return o.IPTablesBackend }, "", sample{flag: "nft", want: "nft"}, sample{flag: "legacy", want: "legacy"}, ""},
	{"traffic-metrics", func(o Options) any { return o.TrafficMetrics }, 0, sample{flag: "5", want: 5}, sample{flag: "10000", want: 10000}, ""},
	{"ipvs-run-estimation", func(o Options) any { return o.RunEstimation }, (*bool)(nil), sample{flag: "false", want: yes(false)}, sample{flag: "true", want: yes(true)}, ""},
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		panic(err)
	}
	return strings.ToLower(name)
}

// resolve parses arguments and resolves them.
func resolve(t *testing.T, args ...string) (Raw, error) {
	t.Helper()
	raw := Defaults()
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	raw.AddFlags(f)
	if err := f.Parse(args); err != nil {
		t.Fatal(err)
	}
	return raw.Resolve(f)
}

// mustValidate resolves arguments that are right.
func mustValidate(t *testing.T, args ...string) Options {
	t.Helper()
	r, err := resolve(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	o, err := r.Validate()
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// file writes a configuration whose field at path has the value.
func file(t *testing.T, path, value, more string) string {
	t.Helper()
	kind := "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
	if isOwn(path) {
		kind = "apiVersion: kube-ipvs-proxy/v1alpha1\nkind: IPVSProxyConfiguration\n"
	}
	indent := ""
	for field := range strings.SplitSeq(path, ".") {
		kind += "\n" + indent + field + ":"
		indent += "  "
	}
	name := filepath.Join(t.TempDir(), "config.conf")
	if err := os.WriteFile(name, []byte(kind+" "+value+"\n"+more+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func isOwn(path string) bool {
	for _, o := range ownOptions {
		if o.path == path {
			return true
		}
	}
	return false
}

func lookup(t *testing.T, flag string) option {
	t.Helper()
	for _, o := range options {
		if o.name == flag {
			return o
		}
	}
	t.Fatalf("no option %s", flag)
	return option{}
}

func TestEveryOption(t *testing.T) {
	for _, test := range chosen {
		t.Run(test.flag, func(t *testing.T) {
			o := lookup(t, test.flag)
			var more []string
			if field, value, ok := strings.Cut(test.needed, ": "); ok {
				more = []string{flagOf(field) + "=" + value, "--" + test.flag + "=" + test.a.flag}
			} else {
				more = []string{}
			}
			check := func(how string, want any, args ...string) Options {
				t.Helper()
				options := mustValidate(t, args...)
				if diff := cmp.Diff(want, test.get(options), cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
					t.Errorf("%s: want -, have +\n%s", how, diff)
				}
				return options
			}
			unquoted := strings.Trim(test.a.flag, "'")
			if test.needed == "" {
				check("default", test.byDef)
				check("absent in the file", test.byDef, "--config", file(t, other(o.path), "''", ""))
			}
			check("flag", test.a.want, append(more, "--"+test.flag+"="+unquoted)...)
			check("other flag", test.b.want, append(more, "--"+test.flag+"="+test.b.flag)...)
			check("file", test.a.want, "--config", file(t, o.path, test.a.inFile(), test.needed))
			check("other file", test.b.want, "--config", file(t, o.path, test.b.inFile(), test.needed))
			want := test.a.want
			if o.beside {
				want = test.b.want
			}
			both := check("file and flag", want, "--config", file(t, o.path, test.a.inFile(), test.needed), "--"+test.flag+"="+test.b.flag)
			told := hasNote(both, "beside --config these flags do not count: --"+test.flag)
			if told == o.beside {
				t.Errorf("that the flag does not count is told: %t; it counts: %t", told, o.beside)
			}
		})
	}
}

// other is a field of the same document without effect.
func other(path string) string {
	if isOwn(path) {
		return "manifests"
	}
	return "showHiddenMetricsForVersion"
}

func hasNote(o Options, text string) bool {
	for _, n := range o.Notes {
		if strings.Contains(n.Text, text) {
			return true
		}
	}
	return false
}

// TestOptionsAreTested finds an option without a test.
func TestOptionsAreTested(t *testing.T) {
	tested := map[string]bool{"strict-mode": true} // TestMode
	for _, test := range chosen {
		tested[test.flag] = true
	}
	for _, o := range options {
		without := o.group == groupIdle || o.path == "" // see TestIdleOptions, and the tests of each
		if without == tested[o.name] {
			t.Errorf("--%s: without effect or field: %t, tested: %t", o.name, without, tested[o.name])
		}
		if (o.group == groupIdle || o.group == groupTasks) && o.live {
			t.Errorf("--%s is live, and cannot be", o.name)
		}
	}
	for _, o := range ownOptions {
		if !o.beside {
			t.Errorf("--%s is our own and does not count beside --config", o.name)
		}
	}
}

// TestFlagsBesideConfig names kube-proxy's flags that count beside a file.
func TestFlagsBesideConfig(t *testing.T) {
	want := []string{"cleanup", "config", "hostname-override", "init-only", "log-flush-frequency", "log-json-info-buffer-size",
		"log-json-split-stream", "log-text-info-buffer-size", "log-text-split-stream", "logging-format", "master",
		"v", "version", "vmodule", "write-config-to"}
	var have []string
	for _, o := range append(kubeProxyOptions[:len(kubeProxyOptions):len(kubeProxyOptions)], idleOptions...) {
		if o.beside {
			have = append(have, o.name)
		}
	}
	if diff := cmp.Diff(want, have, cmpopts.SortSlices(strings.Compare)); diff != "" {
		t.Errorf("want -, have +\n%s", diff)
	}
}

// TestIdleOptions says once what was chosen in vain.
func TestIdleOptions(t *testing.T) {
	values := map[string]string{
		"ipvs-exclude-cidrs": "10.0.0.0/8", "iptables-localhost-nodeports": "false", "iptables-sync-period": "1m",
		"iptables-min-sync-period": "2s", "show-hidden-metrics-for-version": "1.36", "log-flush-frequency": "1s",
		"config-sync-period": "1m", "vmodule": "a=1", "log-text-split-stream": "true", "log-text-info-buffer-size": "1Ki",
		"log-json-split-stream": "true", "log-json-info-buffer-size": "1Ki",
	}
	var args []string
	for _, o := range idleOptions {
		if values[o.name] == "" {
			t.Errorf("no value for --%s", o.name)
		}
		args = append(args, "--"+o.name+"="+values[o.name])
	}
	options := mustValidate(t, args...)
	for _, o := range idleOptions {
		if !hasNote(options, o.path+" (--"+o.name+") ") {
			t.Errorf("nothing is said about %s in vain", o.name)
		}
	}
	if o := mustValidate(t); hasNote(o, "no effect") {
		t.Errorf("without a choice there is: %v", o.Notes)
	}
}

func TestFlagsWithoutField(t *testing.T) {
	r, err := resolve(t, "--master", "https://192.0.2.1", "--once", "--init-only", "--version", "--cleanup", "--write-config-to", "/x",
		"--config", file(t, "mode", "ipvs", ""))
	if err != nil {
		t.Fatal(err)
	}
	o, err := r.Validate()
	if err != nil || o.API.Master != "https://192.0.2.1" || !o.Once || !r.InitOnly || !r.Version || !r.Cleanup || r.WriteConfigTo != "/x" {
		t.Errorf("flags beside a file give %+v, %+v, %v", r, o, err)
	}
}
