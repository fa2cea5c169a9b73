package reserve

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kube-ipvs-proxy/ipsetutil/fake"
)

// node is a setting in a folder and sets in memory.
type node struct {
	*testing.T
	root string
	sets *fake.Fake
}

func newNode(t *testing.T, text string) *node {
	n := &node{t, t.TempDir(), fake.New()}
	if err := os.MkdirAll(filepath.Join(n.root, filepath.Dir(Key)), 0o755); err != nil {
		t.Fatal(err)
	}
	n.set(text)
	return n
}

func (n *node) set(text string) {
	n.Helper()
	if err := os.WriteFile(filepath.Join(n.root, Key), []byte(text+"\n"), 0o644); err != nil {
		n.Fatal(err)
	}
}

func (n *node) reserve(p *Ports, want ...uint16) {
	n.Helper()
	if _, err := p.Reserve(n.Context(), set(want...)); err != nil {
		n.Fatal(err)
	}
}

// has wants the text of the setting, and the ports of the journal.
func (n *node) has(text string, ours ...uint16) {
	n.Helper()
	got, err := os.ReadFile(filepath.Join(n.root, Key))
	if err != nil || strings.TrimSpace(string(got)) != text {
		n.Errorf("setting is %q (%v), want %q", got, err, text)
	}
	if journal, err := New(n.root, n.sets).Ours(n.Context()); err != nil || !slices.Equal(journal, ours) && len(journal)+len(ours) > 0 {
		n.Errorf("journal has %v (%v), want %v", journal, err, ours)
	}
}

func set(ports ...uint16) map[uint16]bool {
	m := map[uint16]bool{}
	for _, p := range ports {
		m[p] = true
	}
	return m
}

func TestReserveAddsToWhatIsThere(t *testing.T) {
	n := newNode(t, "8080,30001-30002")
	p := New(n.root, n.sets)
	n.reserve(p, 30002, 30003, 31000)
	n.has("8080,30001-30003,31000", 30003, 31000)
	n.reserve(p, 31000)
	n.has("8080,30001-30002,31000", 31000)
	n.reserve(p)
	n.has("8080,30001-30002")
}

func TestReserveSurvivesARestart(t *testing.T) {
	n := newNode(t, "30001")
	n.reserve(New(n.root, n.sets), 30001, 30002, 30003)
	again := New(n.root, n.sets)
	n.reserve(again, 30001, 30003)
	n.has("30001,30003", 30003)
	if err := New(n.root, n.sets).Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.has("30001")
	if names, err := n.sets.Names(t.Context()); err != nil || len(names) > 0 {
		t.Errorf("sets %v are left (%v)", names, err)
	}
}

// At rest nothing is written, not even the same text.
func TestReserveWritesOnlyChanges(t *testing.T) {
	n := newNode(t, "8080")
	p := New(n.root, n.sets)
	if changed, err := p.Reserve(t.Context(), nil); changed || err != nil {
		t.Errorf("nothing to reserve: changed %v, %v", changed, err)
	}
	if names, _ := n.sets.Names(t.Context()); len(names) > 0 {
		t.Errorf("a journal of nothing was made: %v", names)
	}
	n.reserve(p, 30001)
	past := time.Now().Add(-time.Hour).Truncate(time.Second)
	path := filepath.Join(n.root, Key)
	if err := os.Chtimes(path, past, past); err != nil {
		t.Fatal(err)
	}
	n.sets.ResetCounts()
	if changed, err := p.Reserve(t.Context(), set(30001)); changed || err != nil {
		t.Errorf("changed %v, %v", changed, err)
	}
	if info, err := os.Stat(path); err != nil || !info.ModTime().Equal(past) {
		t.Errorf("the setting was written (%v)", err)
	}
	if c := n.sets.Counts(); c.Needless != 0 {
		t.Errorf("%+v", c)
	}
}

// What others do to the setting or to the journal is mended, and nothing of theirs lost.
func TestReserveMends(t *testing.T) {
	n := newNode(t, "8080")
	p := New(n.root, n.sets)
	n.reserve(p, 30001, 30002)
	n.set("9090")
	n.reserve(p, 30001, 30002)
	n.has("9090,30001-30002", 30001, 30002)
	if err := n.sets.Destroy(t.Context(), Journal); err != nil {
		t.Fatal(err)
	}
	n.reserve(p, 30001, 30002)
	n.has("9090,30001-30002", 30001, 30002)
	n.reserve(p)
	n.has("9090")
}

// Whatever request fails, what was added is known afterwards and can be taken back.
func TestReserveFails(t *testing.T) {
	for nth := 1; ; nth++ {
		n := newNode(t, "8080")
		p := New(n.root, n.sets)
		n.sets.FailNth(nth, errors.New("no"))
		_, first := p.Reserve(t.Context(), set(30001, 30002))
		var second error
		if first == nil {
			_, second = p.Reserve(t.Context(), set(30002))
		}
		n.sets.FailNth(0, nil)
		if err := New(n.root, n.sets).Release(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.has("8080")
		if first == nil && second == nil {
			if nth < 4 {
				t.Fatalf("only %d requests could fail", nth-1)
			}
			return
		}
	}
}

func TestReserveNeverMakesTheSetting(t *testing.T) {
	if _, err := New(t.TempDir(), fake.New()).Reserve(t.Context(), set(1)); err == nil {
		t.Error("a setting that is missing is no error")
	}
}

func TestFormatAndParse(t *testing.T) {
	for text, want := range map[string]map[uint16]bool{
		"": {}, "1": set(1), "1-3,5,65534-65535": set(1, 2, 3, 5, 65534, 65535),
	} {
		got, err := parse(text + "\n")
		if err != nil || !maps.Equal(got, want) || Format(want) != text {
			t.Errorf("%q: %v (%v), back %q", text, got, err, Format(want))
		}
	}
	for _, bad := range []string{"x", "1-", "70000", "1-70000"} {
		if _, err := parse(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
