package testbed

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestLogCutsLines(t *testing.T) {
	var l Log
	for _, s := range []string{"one\ntw", "o\n", "\nfour", "\nunfinished"} {
		if n, err := l.Write([]byte(s)); n != len(s) || err != nil {
			t.Fatalf("wrote %d of %q, %v", n, s, err)
		}
	}
	if got, want := l.Last(10, nil), []string{"one", "two", "", "four"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	o := func(line string) bool { return strings.Contains(line, "o") }
	if got, want := l.Last(2, o), []string{"two", "four"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestLogForgets(t *testing.T) {
	var l Log
	for i := range 2 * logKept {
		if _, err := fmt.Fprintln(&l, i); err != nil {
			t.Fatal(err)
		}
	}
	all := l.Last(3*logKept, nil)
	if len(all) != logKept || all[0] != fmt.Sprint(logKept) {
		t.Errorf("kept %d lines from %s on, want %d from %d on", len(all), all[0], logKept, logKept)
	}
}

func TestLogTellsOfMore(t *testing.T) {
	var l Log
	next := l.next()
	select {
	case <-next:
		t.Fatal("news before a line was written")
	default:
	}
	if _, err := l.Write([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	select {
	case <-next:
	default:
		t.Error("no news of a line")
	}
}

func TestSettledRevision(t *testing.T) {
	for line, want := range map[string]string{
		`time=2026-01-01T00:00:00.000Z level=INFO msg=settled revision=a1b2`:                "a1b2",
		`time=2026-01-01T00:00:00.000Z level=INFO msg=settled ops=3 revision=a1b2 took=1ms`: "a1b2",
		`level=INFO msg=settled revision="a1b2"`:                                            "a1b2",
		`{"level":"INFO","msg":"settled","revision":"a1b2"}`:                                "a1b2",
		`{"level":"INFO","msg":"round","revision":"a1b2"}`:                                  "",
		`level=INFO msg=round revision=a1b2`:                                                "",
		`level=INFO msg="not settled " revision=a1b2`:                                       "",
		`level=INFO msg=settled pending=3`:                                                  "",
		`{broken`:                                                                           "",
		``:                                                                                  "",
	} {
		if got := settledRevision(line); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
