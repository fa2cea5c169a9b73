package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// child is a process that ends with this one.
type child struct {
	cmd    *exec.Cmd
	output *tail
	exited chan struct{} // closed when it has ended
	err    error         // of Wait; read it after exited
}

// startChild starts a program. The kernel kills it when the thread that started it
// ends: that thread does nothing else and stays until the program has ended.
func startChild(program string, args []string) (*child, error) {
	c := &child{cmd: exec.Command(program, args...), output: &tail{}, exited: make(chan struct{})}
	c.cmd.Stdout, c.cmd.Stderr = c.output, c.output
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := c.cmd.Start()
		started <- err
		if err == nil {
			c.err = c.cmd.Wait()
			close(c.exited)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// kill ends it and waits; one that had ended before is an error.
func (c *child) kill() error {
	select {
	case <-c.exited:
		return c.ended()
	default:
	}
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", c.cmd.Path, err)
	}
	<-c.exited
	return nil
}

// ended tells how it ended, and its last words; read it after exited.
func (c *child) ended() error {
	return fmt.Errorf("%s ended by itself: %v\n%s", c.cmd.Path, c.cmd.ProcessState, c.output.String())
}

// tail keeps the end of what a program writes.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

const tailSize = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf.Write(p)
	if over := t.buf.Len() - tailSize; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.buf.String()
}
