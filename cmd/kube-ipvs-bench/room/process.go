package room

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Process is a proxy, on the node and in the room's control group.
type Process struct {
	Started time.Time

	room   *Room
	cmd    *exec.Cmd
	out    tail
	exited chan struct{}
	err    error
}

// Start starts a program on the node.
func (r *Room) Start(program string, args ...string) (*Process, error) {
	p := &Process{room: r, cmd: exec.Command(program, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.out
	p.cmd.WaitDelay = time.Second // children that outlive it do not hold us up
	p.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, UseCgroupFD: true, CgroupFD: int(r.group.fd.Fd()),
		Setpgid: true, // Ctrl-C reaches us alone, and we end it
	}
	p.Started = time.Now()
	if err := r.node.do(p.cmd.Start); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// Ended tells that the process ended by itself, and what it said last.
func (p *Process) Ended() error {
	select {
	case <-p.exited:
		return fmt.Errorf("it ended by itself: %w; its last words:\n%s", ending(p.err), p.out.String())
	default:
		return nil
	}
}

// Said is the end of what it wrote.
func (p *Process) Said() string { return p.out.String() }

func ending(err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("exit status 0")
}

// CPU is the time that it and its children have used.
func (p *Process) CPU() (time.Duration, error) {
	all, _, err := p.room.group.cpu()
	return all, err
}

// KernelCPU is the part of CPU that the kernel used for them.
func (p *Process) KernelCPU() (time.Duration, error) {
	_, kernel, err := p.room.group.cpu()
	return kernel, err
}

// RSS is its resident memory in bytes: now, and the most that it ever had.
func (p *Process) RSS() (now, most int64, err error) {
	if now, err = p.status("VmRSS:"); err != nil {
		return 0, 0, err
	}
	most, err = p.status("VmHWM:")
	return now, most, err
}

// status is a size in the kernel's account of the process.
func (p *Process) status(field string) (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			n, err := strconv.ParseInt(strings.Fields(value)[0], 10, 64)
			return n << 10, err
		}
	}
	return 0, fmt.Errorf("process %d has no %s", p.cmd.Process.Pid, field)
}

// Quiet waits until it has used nearly no CPU for a while.
func (p *Process) Quiet(ctx context.Context) error {
	const window, still = 200 * time.Millisecond, 4 * time.Millisecond
	before, err := p.CPU()
	for calm := 0; err == nil && calm < 2; {
		select {
		case <-time.After(window):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		var now time.Duration
		if now, err = p.CPU(); now-before < still {
			calm++
		} else {
			calm = 0
		}
		before = now
	}
	return err
}

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 4 << 10

// Write implements io.Writer; it never fails.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, b...)
	if len(t.text) > 2*tailSize {
		t.text = bytes.Clone(t.text[len(t.text)-tailSize:])
	}
	return len(b), nil
}

// String is the last lines.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return "  " + strings.Join(lines[max(0, len(lines)-8):], "\n  ")
}
