package testbed

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"syscall"
	"time"
)

// Process is a long-running program on a host.
type Process struct {
	// Log is what it writes, both streams.
	Log *Log

	host   *Host
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended
	err    error         // of Wait; read it after exited
}

// StartProcess starts a program on the host; log may be one that an earlier run
// has written to, nil makes a new one.
func (h *Host) StartProcess(log *Log, program string, args ...string) (*Process, error) {
	if log == nil {
		log = &Log{}
	}
	p := &Process{Log: log, host: h, cmd: exec.Command(program, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.WaitDelay = time.Second // a child that outlives it does not hold us up
	if err := h.start(p.cmd); err != nil {
		return nil, err
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.exited)
	}()
	return p, nil
}

// PID is the process's id.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Exited is closed when the process has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Stop sends SIGTERM and waits. It is an error if the process had ended before,
// does not end in time or does not exit 0.
func (p *Process) Stop(ctx context.Context) error {
	if err := p.signal(ctx, syscall.SIGTERM); err != nil {
		return err
	}
	if p.err != nil {
		return fmt.Errorf("%v, after SIGTERM: %w; %s", p, p.err, p.Log.tail())
	}
	return nil
}

// Kill sends SIGKILL and waits. It is an error if the process had ended before.
func (p *Process) Kill(ctx context.Context) error { return p.signal(ctx, syscall.SIGKILL) }

func (p *Process) signal(ctx context.Context, s syscall.Signal) error {
	select {
	case <-p.exited:
		return fmt.Errorf("%v had ended by itself: %w; %s", p, p.Ended(), p.Log.tail())
	default:
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("%v: %v: %w", p, s, err)
	}
	select {
	case <-p.exited:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%v: still there after %v: %w; %s", p, s, context.Cause(ctx), p.Log.tail())
	}
}

// Ended is the way the process ended, as an error in any case. Call it after Exited.
func (p *Process) Ended() error {
	if p.err != nil {
		return p.err
	}
	return errors.New("exit status 0")
}

// String names the process in errors.
func (p *Process) String() string {
	return fmt.Sprintf("%s on %s (process %d)", p.cmd.Args[0], p.host.Name(), p.PID())
}
