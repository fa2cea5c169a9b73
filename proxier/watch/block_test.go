package watch

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// agree checks that what the fast reader accepts is the same to the YAML reader.
func agree(t *testing.T, body []byte) (accepted bool) {
	t.Helper()
	fast, ok := blockJSON(body)
	if !ok {
		return false
	}
	slow, err := yaml.YAMLToJSONStrict(body)
	if err != nil {
		t.Fatalf("%q is read as %s, but it is no YAML: %v", body, fast, err)
	}
	var a, b any
	if err := json.Unmarshal(fast, &a); err != nil {
		t.Fatalf("%q is read as %s, which is no JSON: %v", body, fast, err)
	}
	if err := json.Unmarshal(slow, &b); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, a); diff != "" {
		t.Fatalf("%q is read otherwise (-YAML reader +fast reader):\n%s", body, diff)
	}
	return true
}

func TestBlock(t *testing.T) {
	accepted := []string{
		"a: b", "a:\nb:\n", "a:\n  b: 1\n  c: 0\nd: true\n", "a:\n- b\n- c\nd: e", "a:\n  - b\n  - c: d\n    e:\n    - f\n    g: h\n  - i: {}\nj: []\n",
		"# c\na: 10.96.0.10\n\n  # d\nb: fd96::10\nc: 2001:db8::/32\nd: 10.0.0.0/8\n", "a.b/c-d_e: \"x y: #z\"\nb: ''\nc: '1'\n",
		"a: 999999999999999\n", "a: x   \nb:   z\n", "a:\n-   b: c\n    d: e\n",
	}
	for _, text := range accepted {
		if !agree(t, []byte(text)) {
			t.Errorf("%q is left to the YAML reader", text)
		}
	}
	left := []string{
		"", "a", "- a", "a: b: c", "a: b\n c: d", "a: b\n  c", "a:\n    b: c\n  d: e", "a: 1\na: 2", "a: yes", "NO: a", "a: ~", "a: .5", "a: 1.5",
		"a: 0x1", "a: 010", "a: 2026-01-02", "a: 1:30", "a: 1e3", "a: -1", "a: |\n  b", "a: &b c", "a: *b", "a: !!str b", "a: [b]", "a: {b: c}", "a: b c",
		"a: b # c", "a:\tb", "a: 'it''s'", `a: "\n"`, "a: ü", "a: b\r\n", "? a", "a:\n- - b", "a:\n-\n  b: c", "a:\n- b\nc", "a: fd96::", "--- a: b",
		"a: 1234567890123456", "a:\n- b\n  - c", "\"a\": b", "1: a", "a: b\n- c", "a: \x00", "# \x00\na: b", "a: 'b", "a: '",
	}
	for _, text := range left {
		if agree(t, []byte(text)) {
			t.Errorf("%q is not left to the YAML reader", text)
		}
	}
}

// TestBlockIsUsed: the usual manifests take the fast way.
func TestBlockIsUsed(t *testing.T) {
	paths, err := filepath.Glob("../../deploy/manifests/*.yaml")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	bodies := [][]byte{[]byte(benchService(7))}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, data)
	}
	for _, body := range bodies {
		for _, text := range splitYAML(body) {
			if !agree(t, text.body) {
				t.Errorf("left to the YAML reader:\n%s", text.body)
			}
		}
	}
}

func FuzzBlock(f *testing.F) {
	f.Add([]byte("a:\n- b: c\n  d: 10.96.0.10\n- e\nf: 'g'\nh:\n  i: true\n"))
	for _, text := range splitYAML([]byte(benchService(7))) {
		f.Add(bytes.Clone(text.body))
	}
	f.Fuzz(func(t *testing.T, body []byte) { agree(t, body) })
}

// TestBlockRandom puts together lines that are nearly right, which bytes changed at
// random seldom are.
func TestBlockRandom(t *testing.T) {
	indents := []string{"", "", "  ", "  ", "    ", " ", "- ", "- ", "  - ", "  -   ", "-", "    - "}
	keys := []string{"a: ", "b: ", "c:", "kind: ", "k.io/x-y: ", "", "", "y: ", "a:"}
	values := []string{"", "", "", "x", "1", "0", "007", "true", "no", "10.96.0.10", "fd00::1", "fd00::", "1.2", "'q r'", `"s"`, `"`, "{}", "[]",
		"x y", "# c", "x # c", "|", "1:2", "2001:db8::1", "-1", "- z", "1_000", "1.2.3.4/24", "0.0.0.0", "1e5", "0::", "12:30:45", "NULL", "~"}
	random := rand.New(rand.NewPCG(3, 4))
	pick := func(from []string) string { return from[random.IntN(len(from))] }
	accepted := 0
	for range 200000 {
		var body []byte
		for range 1 + random.IntN(6) {
			body = append(body, pick(indents)+pick(keys)+pick(values)+"\n"...)
		}
		if agree(t, body) {
			accepted++
		}
	}
	if accepted < 500 {
		t.Errorf("only %d documents were accepted", accepted)
	}
}
