package main

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// TestFrames sends binary output of both kinds and each way to end.
func TestFrames(t *testing.T) {
	binary := string([]byte{0, 1, 'x', 's', 'o', 255, '\r', '\n'})
	long := strings.Repeat("0123456789abcdef", 20<<10)
	for _, c := range []struct {
		name string
		end  func(*frameWriter) error
		want outcome
	}{
		{"zero", func(f *frameWriter) error { return f.exit(0) }, outcome{}},
		{"seven", func(f *frameWriter) error { return f.exit(7) }, outcome{code: 7}},
		{"signal", func(f *frameWriter) error { return f.exit(128 + 9) }, outcome{code: 137}},
		{"failed", func(f *frameWriter) error { return f.write(frameFailed, []byte("no such file")) },
			outcome{code: exitNotRun, failure: "no such file"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var stream, stdout, stderr bytes.Buffer
			f := &frameWriter{w: &stream}
			if err := f.write(frameStarted, nil); err != nil {
				t.Fatal(err)
			}
			f.copyFrom(frameStdout, strings.NewReader(binary+long))
			f.copyFrom(frameStderr, strings.NewReader("to stderr"))
			if err := c.end(f); err != nil {
				t.Fatal(err)
			}
			started := 0
			got, err := readFrames(&stream, &stdout, &stderr, func() { started++ })
			if err != nil || got != c.want {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
			if stdout.String() != binary+long || stderr.String() != "to stderr" || started != 1 {
				t.Errorf("stdout %d bytes, stderr %q, started %d", stdout.Len(), stderr.String(), started)
			}
		})
	}
}

// TestFramesCut ends the stream at every byte before the exit frame is whole:
// a machine that dies never looks like success.
func TestFramesCut(t *testing.T) {
	var stream bytes.Buffer
	f := &frameWriter{w: &stream}
	f.copyFrom(frameStdout, strings.NewReader("hello"))
	if err := f.exit(0); err != nil {
		t.Fatal(err)
	}
	for n := range stream.Len() {
		_, err := readFrames(bytes.NewReader(stream.Bytes()[:n]), io.Discard, io.Discard, func() {})
		if !errors.Is(err, errNoOutcome) {
			t.Errorf("cut at byte %d: error %v, want errNoOutcome", n, err)
		}
	}
}

func TestFramesBroken(t *testing.T) {
	for _, c := range []struct{ name, stream string }{
		{"too long", "o\xff\xff\xff\xff"},
		{"unknown kind", "?\x00\x00\x00\x00"},
		{"exit code of two bytes", "x\x00\x00\x00\x02\x00\x07"},
	} {
		_, err := readFrames(strings.NewReader(c.stream), io.Discard, io.Discard, func() {})
		if err == nil || errors.Is(err, errNoOutcome) {
			t.Errorf("%s: error %v, want one that tells what is broken", c.name, err)
		}
	}
}
