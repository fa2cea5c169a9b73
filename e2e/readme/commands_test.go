package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// root is the folder of the module.
const root = "../.."

// documents are those whose commands are looked at.
var documents = []string{"README.md", "CONTRIBUTING.md", "deploy/README.md", "deploy/troubleshooting.md", "deploy/benchmark/README.md", "e2e/README.md"}

// kinds say how each command is tested; the first that fits counts.
var kinds = []struct {
	begins string
	test   func(t *testing.T, words []string)
}{
	{"make ", makeTarget},
	{"go run ", goPackage}, {"go test ", goPackage}, {"go build ", goPackage},
	{"docker build ", dockerfile}, {"cd deploy/benchmark && kustomize ", nothing}, {"kubectl apply -k .", nothing}, // see cmd/kube-ipvs-bench
	{"kubectl apply -k ", kustomization}, {"kubectl delete -k ", kustomization}, {"cd deploy/base && kustomize ", nothing},
	{"kubectl -n kube-system patch ", patchFile},
	{"helm install ", chart},
	{"O=", folder},
	{"resources: ", nothing}, {"components: ", nothing}, // a file's text, tested in deploy
	{"kube-ipvs-proxy ", nothing}, // run in the lab, or its help is asked in cmd
	// Labels of nodes and the state of a roll-out need a cluster with nodes: e2e/cluster
	// has none. What they lead to is computed in e2e/deploy from the selectors.
	{"kubectl label ", nothing}, {"kubectl -n kube-system rollout ", nothing},
	{"kubectl -n kube-system get ", nothing}, {"kubectl -n kube-system logs ", nothing}, {"kubectl -n kube-system exec ", nothing},
	{"sh e2e/verify-ipvsadm.sh ", nothing},            // run in e2e/tools
	{"iptables-legacy-save | grep ", nothing},         // run in proxier/netfilter
	{"source <(kube-ipvs-proxy completion ", nothing}, // run in cmd, without a shell
}

// TestEveryCommand finds what each command of the documents needs.
func TestEveryCommand(t *testing.T) {
	for _, name := range documents {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		commands := Commands(name, string(text))
		if len(commands) == 0 {
			t.Errorf("%s has no commands", name)
		}
		variable := ""
		for _, c := range commands {
			line := strings.ReplaceAll(c.Text, "$O", variable)
			if value, ok := strings.CutPrefix(line, "O="); ok {
				variable = strings.Fields(value)[0]
			}
			line = withoutEnvironment(line)
			at := slices.IndexFunc(kinds, func(k struct {
				begins string
				test   func(t *testing.T, words []string)
			}) bool {
				return strings.HasPrefix(line, k.begins)
			})
			if at < 0 {
				t.Errorf("%s: nobody tests %q", c.Where, c.Text)
				continue
			}
			t.Run(c.Where, func(t *testing.T) { kinds[at].test(t, strings.Fields(line)) })
		}
	}
}

// withoutEnvironment takes settings of the environment from the front, but for O=.
func withoutEnvironment(line string) string {
	for {
		word, rest, ok := strings.Cut(line, " ")
		if !ok || !regexp.MustCompile(`^[A-Z_]{2,}=`).MatchString(word) {
			return line
		}
		line = rest
	}
}

func nothing(*testing.T, []string) {}

func makeTarget(t *testing.T, words []string) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, target := range words[1:] {
		if !strings.Contains(string(text), "\n"+target+":") {
			t.Errorf("the Makefile has no target %s", target)
		}
	}
}

// goPackage: the package is there, and -run and -fuzz name something in it.
func goPackage(t *testing.T, words []string) {
	var folders []string
	run := ""
	for i, w := range words {
		if strings.HasPrefix(w, "./") {
			folders = append(folders, filepath.Join(root, w))
		}
		if w == "-run" || w == "-fuzz" {
			if value := strings.Trim(words[i+1], "'"); value != "^$" {
				run = value
			}
		}
	}
	if len(folders) == 0 {
		t.Fatalf("no package in %q", words)
	}
	found := run == ""
	for _, folder := range folders {
		files, err := filepath.Glob(filepath.Join(strings.TrimSuffix(folder, "..."), "*.go"))
		if err != nil || len(files) == 0 && !strings.HasSuffix(folder, "...") {
			t.Errorf("%s: %d files, %v", folder, len(files), err)
		}
		for _, file := range files {
			found = found || hasTest(t, file, run)
		}
	}
	if !found {
		t.Errorf("no test matches %q", run)
	}
}

var testName = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz|Benchmark)\w*)\(`)

func hasTest(t *testing.T, file, run string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pattern := regexp.MustCompile(run)
	for _, name := range testName.FindAllSubmatch(text, -1) {
		if pattern.Match(name[1]) {
			return true
		}
	}
	return false
}

// dockerfile: it is there. No engine builds it here; its stages are run in e2e/deploy.
func dockerfile(t *testing.T, words []string) {
	at := slices.Index(words, "-f")
	if _, err := os.Stat(filepath.Join(root, words[at+1])); err != nil {
		t.Error(err)
	}
}

func kustomization(t *testing.T, words []string) {
	readYAML(t, filepath.Join(root, words[3], "kustomization.yaml"))
}

func folder(t *testing.T, words []string) {
	kustomization(t, []string{"", "", "", strings.TrimPrefix(words[0], "O=")})
}

func patchFile(t *testing.T, words []string) {
	at := slices.Index(words, "--patch-file")
	if at < 0 || readYAML(t, filepath.Join(root, words[at+1]))["spec"] == nil {
		t.Errorf("%q patches nothing", words)
	}
}

// chart: what is set is a value of the chart.
func chart(t *testing.T, words []string) {
	values := readYAML(t, filepath.Join(root, words[5], "values.yaml"))
	for i, w := range words {
		if w != "--set" {
			continue
		}
		key, _, _ := strings.Cut(words[i+1], "=")
		var at any = values
		for part := range strings.SplitSeq(key, ".") {
			object, ok := at.(map[string]any)
			if !ok {
				t.Fatalf("--set %s: %v is no object", key, at)
			}
			if at, ok = object[part]; !ok {
				t.Errorf("--set %s: the chart has no such value", key)
			}
		}
	}
}

func readYAML(t *testing.T, file string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := yaml.Unmarshal(text, &object); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return object
}
