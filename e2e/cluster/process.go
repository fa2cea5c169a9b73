package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"kube-ipvs-proxy/e2e/program"
)

// child is a process that ends with this one.
type child struct {
	cmd    *exec.Cmd
	output *program.Tail
	exited chan struct{} // closed when it has ended
	err    error         // of Wait; read it after exited
}

// startChild starts a program. The kernel kills it when the thread that started it
// ends: that thread does nothing else and stays until the program has ended.
func startChild(path string, args []string) (*child, error) {
	c := &child{cmd: exec.Command(path, args...), output: &program.Tail{}, exited: make(chan struct{})}
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
		return nil, fmt.Errorf("start %s: %w", path, err)
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
