package host

import "testing"

func TestCheckSysctlsWritesNothing(t *testing.T) {
	files := map[string]string{"right": "1\n", "wrong": "0\n", "small": "100\n", "large": "300\n", "told": "0\n"}
	root := tree(t, files)
	var found []string
	for _, p := range CheckSysctls(root, []Sysctl{
		{Key: "right", Want: "1"},
		{Key: "wrong", Want: "1"},
		{Key: "small", Want: "200", Rule: RaiseSysctl},
		{Key: "large", Want: "200", Rule: RaiseSysctl},
		{Key: "told", Want: "1", Rule: ReportSysctl},
		{Key: "missing", Want: "1"},
	}) {
		found = append(found, p.Key+" "+p.Have)
		if (p.Err != nil) != (p.Key == "missing") {
			t.Errorf("%s: %v", p.Key, p.Err)
		}
	}
	want := []string{"wrong 0", "small 100", "told 0", "missing "}
	if len(found) != len(want) {
		t.Fatalf("found %q, want %q", found, want)
	}
	for i := range want {
		if found[i] != want[i] {
			t.Errorf("found %q, want %q", found[i], want[i])
		}
	}
	for name, text := range files {
		if got := content(t, root, name); got != text {
			t.Errorf("%s was changed from %q to %q", name, text, got)
		}
	}
}
