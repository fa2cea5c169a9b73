package readme

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCommands(t *testing.T) {
	text := "Text.\n\n    make demo     three nodes,\n                  more of it\n    O=a/b         # a folder\n    helm install x \\\n      --set a=b\n\n```yaml\n    no: command\n```\n    # a remark\n"
	want := []Command{{"make demo", "x:3"}, {"O=a/b", "x:5"}, {"helm install x --set a=b", "x:6"}}
	if diff := cmp.Diff(want, Commands("x", text)); diff != "" {
		t.Error(diff)
	}
}

func TestScenes(t *testing.T) {
	text := "<!-- lab: a b; c | d -->\n```\n$ one --two \\\n    three\nout\n...\n$ four\n```\n\n```\n$ not this\n```\n"
	want := []Scene{{Where: "x:1", Before: []string{"a b", "c"}, After: []string{"d"},
		Steps: []Step{{Command: "one --two three", Output: []string{"out", "..."}}, {Command: "four"}}}}
	if diff := cmp.Diff(want, Scenes("x", text)); diff != "" {
		t.Error(diff)
	}
}

func TestMatches(t *testing.T) {
	for _, test := range []struct {
		shown, lines string
		want         bool
	}{
		{"a|b", "a|b", true}, {"a", "a|b", false}, {"a|...", "a|b|c", true}, {"...|c", "a|b|c", true},
		{"a|...|c", "a|c", true}, {"a|...|b", "a|c", false}, {"...|b|...|d", "a|b|c|d", true},
	} {
		if got := Matches(strings.Split(test.shown, "|"), strings.Split(test.lines, "|")); got != test.want {
			t.Errorf("%q and %q: %t", test.shown, test.lines, got)
		}
	}
}
