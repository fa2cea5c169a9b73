package main

import (
	"strings"
	"testing"
)

func TestFlat(t *testing.T) {
	level := []sample{{RSS: 40 << 20, Files: 20}, {RSS: 60 << 20, Files: 21}, {RSS: 50 << 20, Files: 20}, {RSS: 70 << 20, Files: 20}}
	if err := flat(level); err != nil {
		t.Error(err)
	}
	var growing []sample
	for n := range 8 {
		growing = append(growing, sample{RSS: float64(n+1) * (10 << 20), Files: float64(10 * n)})
	}
	if err := flat(growing); err == nil || !strings.Contains(err.Error(), "RSS") || !strings.Contains(err.Error(), "files") {
		t.Errorf("what grows is said to be flat: %v", err)
	}
}

func TestSame(t *testing.T) {
	if err := same(sample{RSS: 1, Servers: 5}, sample{RSS: 2, Servers: 5}); err != nil {
		t.Error(err)
	}
	if same(sample{Servers: 5}, sample{Servers: 6}) == nil {
		t.Error("another kernel is said to be the same")
	}
}

func TestParse(t *testing.T) {
	got, err := parse(strings.NewReader("# HELP x\ngo_goroutines 17\nx{a=\"b c\"} 3\nbig 1.5e+07\n"))
	if err != nil || got["go_goroutines"] != 17 || got["big"] != 15e6 || len(got) != 2 {
		t.Errorf("%v %v", got, err)
	}
}
