package main

import (
	"bytes"
	"testing"
)

func TestPaint(t *testing.T) {
	var out bytes.Buffer
	p := &painter{out: &out}
	for _, piece := range []string{"ok       a\nfau", "lt    b\n", "  verdict   works\n  verdict   dropped: no\n", "  \"want\": 1,\n", "plain\n"} {
		if n, err := p.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	want := "\x1b[32mok\x1b[0m       a\n\x1b[1;31mfault\x1b[0m    b\n" +
		"\x1b[32m  verdict   works\x1b[0m\n\x1b[1;31m  verdict   dropped: no\x1b[0m\n  \"want\": 1,\nplain\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}

// TestNoColourInPipes: what is no terminal gets plain text.
func TestNoColourInPipes(t *testing.T) {
	var out bytes.Buffer
	if got := colourful(&out); got != &out {
		t.Errorf("a buffer gets a %T", got)
	}
}
