package config

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	kubeProxyHead = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
	ownHead       = "apiVersion: kube-ipvs-proxy/v1alpha1\nkind: IPVSProxyConfiguration\n"
)

// golden compares with a file of testdata.
func golden(t *testing.T, name string, have []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, have, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(have)); diff != "" {
		t.Errorf("%s: want -, have + (-update writes it anew)\n%s", name, diff)
	}
}

func mustText(t *testing.T, r Raw) []byte {
	t.Helper()
	text, err := r.Text()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestWrite writes the defaults, and a file in which many fields have a value.
func TestWrite(t *testing.T) {
	golden(t, "default.yaml", mustText(t, Defaults()))
	source, err := os.ReadFile("testdata/full.conf")
	if err != nil {
		t.Fatal(err)
	}
	full, err := Read(source)
	if err != nil || full.notes != nil {
		t.Fatalf("error %v, notes %v", err, full.notes)
	}
	written := mustText(t, full)
	golden(t, "full.yaml", written)
	again, err := Read(written)
	if err != nil || again.notes != nil {
		t.Fatalf("what was written gives error %v, notes %v", err, again.notes)
	}
	if diff := cmp.Diff(string(written), string(mustText(t, again))); diff != "" {
		t.Errorf("written once -, twice +\n%s", diff)
	}
	if live, restart := Diff(full, again); live != nil || restart != nil {
		t.Errorf("what was written differs: %v, %v", live, restart)
	}
}

// TestReadKubeadm: zero and null are what kubeadm writes for "default".
func TestReadKubeadm(t *testing.T) {
	source, err := os.ReadFile("testdata/kubeadm.conf")
	if err != nil {
		t.Fatal(err)
	}
	r, err := Read(source)
	if err != nil || r.notes != nil {
		t.Fatalf("error %v, notes %v", err, r.notes)
	}
	want := Defaults()
	want.ClusterCIDR = "10.244.0.0/16"
	want.ClientConnection.Kubeconfig = "/var/lib/kube-proxy/kubeconfig.conf"
	if diff := cmp.Diff(string(mustText(t, want)), string(mustText(t, r))); diff != "" {
		t.Errorf("want -, have +\n%s", diff)
	}
}

// TestStatement126UnknownFieldIsAWarning, with its path and line.
func TestStatement126UnknownFieldIsAWarning(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       []string
	}{
		{"none", kubeProxyHead + "ipvs: {scheduler: lc}", nil},
		{"unknown", kubeProxyHead + "mod: ipvs", []string{`unknown field "mod" (line 3); it is left out`}},
		{"unknown below", kubeProxyHead + "ipvs:\n  schedular: lc\n  scheduler: sed", []string{`unknown field "ipvs.schedular" (line 4); it is left out`}},
		{"wrong case", kubeProxyHead + "Mode: ipvs", []string{`unknown field "Mode" (line 3); it is left out`}},
		{"in a list", kubeProxyHead + "logging:\n  vmodule:\n  - filePattern: a\n    x: 1", []string{`unknown field "logging.vmodule[0].x" (line 6); it is left out`}},
		{"twice", kubeProxyHead + "ipvs:\n  scheduler: lc\n  scheduler: sed", []string{`duplicate field "ipvs.scheduler" (lines 4 and 5): the last one counts`}},
		{"in the second document", kubeProxyHead + "---\n# ours\n" + ownHead + "drain: 1s", []string{`unknown field "drain" (line 7); it is left out`}},
		{"in both", kubeProxyHead + "a: 1\n---\n" + ownHead + "b: 1", []string{`unknown field "a" (line 3); it is left out`, `unknown field "b" (line 7); it is left out`}},
		{"JSON", `{"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "a": 1}`, []string{`unknown field "a" (line 1); it is left out`}},
	} {
		r, err := Read([]byte(test.text))
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
			continue
		}
		o, err := r.Validate()
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		var have []string
		for _, n := range o.Notes {
			if n.Warning {
				have = append(have, n.Text)
			}
		}
		if diff := cmp.Diff(test.want, have); diff != "" {
			t.Errorf("%s: want -, have +\n%s", test.name, diff)
		}
	}
}

func TestReadDocuments(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       string // scheduler, drain timeout
	}{
		{"kube-proxy's only", kubeProxyHead + "ipvs: {scheduler: lc}", "lc 15m0s"},
		{"ours only", ownHead + "drainTimeout: 1m", " 1m0s"},
		{"both", kubeProxyHead + "ipvs: {scheduler: lc}\n---\n" + ownHead + "drainTimeout: 1m", "lc 1m0s"},
		{"the other order", ownHead + "drainTimeout: 1m\n---\n" + kubeProxyHead + "ipvs: {scheduler: lc}\n", "lc 1m0s"},
		{"separators around", "---\n# first\n---\n" + kubeProxyHead + "ipvs: {scheduler: lc}\n--- # end\n\n---\n", "lc 15m0s"},
		{"zero is a value of ours", ownHead + "drainTimeout: 0s", " 0s"},
		{"Windows", strings.ReplaceAll(kubeProxyHead+"---\n"+ownHead+"drainTimeout: 1m\n", "\n", "\r\n"), " 1m0s"},
	} {
		r, err := Read([]byte(test.text))
		if have := r.IPVS.Scheduler + " " + r.DrainTimeout.Duration.String(); err != nil || have != test.want {
			t.Errorf("%s: %q, error %v, want %q", test.name, have, err, test.want)
		}
	}
}

func TestReadErrors(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "has no KubeProxyConfiguration and no IPVSProxyConfiguration"},
		{"comments", "# nothing\n---\n", "has no KubeProxyConfiguration"},
		{"no YAML", kubeProxyHead + "a: [", "document at line 1: "},
		{"no object", "hello", "document at line 1: "},
		{"a list", "- a", "document at line 1: "},
		{"no kind", "mode: ipvs", `apiVersion "", kind "": want kubeproxy.config.k8s.io/v1alpha1, KubeProxyConfiguration`},
		{"other version", strings.Replace(kubeProxyHead, "v1alpha1", "v1", 1), `apiVersion "kubeproxy.config.k8s.io/v1"`},
		{"other kind", "---\n" + kubeProxyHead + "---\napiVersion: v1\nkind: ConfigMap\n", `document at line 5: apiVersion "v1", kind "ConfigMap"`},
		{"twice", kubeProxyHead + "---\n" + kubeProxyHead, "document at line 4: a second KubeProxyConfiguration"},
		{"wrong type", kubeProxyHead + "ipvs: {strictARP: 7}", "ipvs.strictARP of type bool"},
		{"wrong duration", ownHead + "drainTimeout: soon", `IPVSProxyConfiguration: time: invalid duration "soon"`},
		{"number too large", kubeProxyHead + "oomScoreAdj: 99999999999", "oomScoreAdj"},
		{"two", kubeProxyHead + "ipvs: 1\n---\n" + ownHead + "drainTimeout: x", "document at line 5: IPVSProxy"},
	} {
		_, err := Read([]byte(test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.name, err, test.want)
		}
	}
	if _, err := resolve(t, "--config", "/does/not/exist"); err == nil || !strings.Contains(err.Error(), "--config: open /does/not/exist") {
		t.Errorf("missing file: %v", err)
	}
	name := filepath.Join(t.TempDir(), "c")
	if err := os.WriteFile(name, []byte("a: ["), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := resolve(t, "--config", name); err == nil || !strings.Contains(err.Error(), "--config "+name+": document") {
		t.Errorf("broken file: %v", err)
	}
}

// FuzzRead: no text makes reading or validation panic, and what was read is the same
// after it was written.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"kubeadm.conf", "full.conf", "full.yaml"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(kubeProxyHead + "a: &a [*a]\nb: {<<: *a}"))
	f.Add([]byte(kubeProxyHead + "featureGates: {A: true}\nconntrack: {tcpEstablishedTimeout: 1ns}"))
	f.Add([]byte(ownHead + "allowExternalCIDRs: [::/0, x]\nnodePortRange: 1-2"))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := Read(text)
		if err != nil {
			return
		}
		_, invalid := r.Validate()
		written, err := r.Text()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Read(written)
		if err != nil {
			t.Fatalf("%v\n%s", err, written)
		}
		if diff := cmp.Diff(string(written), string(mustText(t, again))); diff != "" {
			t.Errorf("written once -, twice +\n%s", diff)
		}
		if _, err := again.Validate(); (err == nil) != (invalid == nil) {
			t.Errorf("validation before: %v, after: %v", invalid, err)
		}
	})
}
