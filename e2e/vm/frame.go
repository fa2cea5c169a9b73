package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
)

// frameKind is the first byte of a frame. Frames carry the program's output
// and its end through one virtio-serial port, so that the kernel's console and
// the program's bytes never mix.
type frameKind byte

const (
	frameStarted frameKind = 's' // the program runs; no payload
	frameStdout  frameKind = 'o'
	frameStderr  frameKind = 'e'
	frameExit    frameKind = 'x' // payload: exit code, 4 bytes
	frameFailed  frameKind = 'f' // the program could not be run; payload: why
)

// maxFrame bounds a payload: a larger length means that the stream is broken.
const maxFrame = 64 << 10

// frameWriter writes frames whole, from several goroutines.
type frameWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (f *frameWriter) write(kind frameKind, payload []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	buf := make([]byte, 5, 5+len(payload))
	buf[0] = byte(kind)
	binary.BigEndian.PutUint32(buf[1:], uint32(len(payload)))
	_, err := f.w.Write(append(buf, payload...))
	return err
}

// copyFrom sends what r yields as frames of one kind until r ends.
func (f *frameWriter) copyFrom(kind frameKind, r io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if f.write(kind, buf[:n]) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (f *frameWriter) exit(code int) error {
	return f.write(frameExit, binary.BigEndian.AppendUint32(nil, uint32(code)))
}

// outcome is how a run in the machine ended.
type outcome struct {
	code    int
	failure string // why the program could not be run; empty: it ran, and code is its exit code
}

// errNoOutcome means that the stream ended before the program's end was told.
var errNoOutcome = errors.New("the machine ended without telling the program's exit code")

// readFrames copies the program's output to stdout and stderr as it comes and
// returns at the frame that tells the end. It calls started once.
func readFrames(r io.Reader, stdout, stderr io.Writer, started func()) (outcome, error) {
	var head [5]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return outcome{}, errNoOutcome
		}
		size := binary.BigEndian.Uint32(head[1:])
		if size > maxFrame {
			return outcome{}, fmt.Errorf("broken frame: kind %q, %d bytes", head[0], size)
		}
		payload := make([]byte, size)
		if _, err := io.ReadFull(r, payload); err != nil {
			return outcome{}, errNoOutcome
		}
		switch frameKind(head[0]) {
		case frameStarted:
			started()
		case frameStdout:
			if _, err := stdout.Write(payload); err != nil {
				return outcome{}, fmt.Errorf("stdout: %w", err)
			}
		case frameStderr:
			if _, err := stderr.Write(payload); err != nil {
				return outcome{}, fmt.Errorf("stderr: %w", err)
			}
		case frameFailed:
			return outcome{code: exitNotRun, failure: string(payload)}, nil
		case frameExit:
			if size != 4 {
				return outcome{}, fmt.Errorf("broken exit frame: %d bytes", size)
			}
			return outcome{code: int(int32(binary.BigEndian.Uint32(payload)))}, nil
		default:
			return outcome{}, fmt.Errorf("unknown frame kind %q", head[0])
		}
	}
}
