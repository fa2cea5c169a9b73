package room

import (
	"os"
	"os/exec"
	"time"

	"github.com/vishvananda/netlink"
)

// Children counts the processes that the process starts, from now on until stop is
// called. Where the kernel does not tell (to who is not in its first namespaces of
// processes and network, and root), ok is false.
func (p *Process) Children() (stop func() (n int, ok bool)) {
	events, done, failed := make(chan netlink.ProcEvent, 4096), make(chan struct{}), make(chan error, 16)
	if err := netlink.ProcEventMonitor(events, done, failed); err != nil {
		return func() (int, bool) { return 0, false }
	}
	f := &family{members: map[uint32]bool{uint32(p.cmd.Process.Pid): true}, self: uint32(os.Getpid())}
	result, end := make(chan *family), make(chan struct{})
	go func() {
		for {
			select {
			case e, open := <-events:
				if !open {
					events = nil
				}
				f.take(e)
			case <-end:
				result <- f
				return
			}
		}
	}()
	// The monitor does not say that it hears nothing: a process of our own tells.
	_ = exec.Command("true").Run()
	return func() (int, bool) {
		time.Sleep(20 * time.Millisecond) // the last events
		close(end)
		f := <-result
		close(done)
		go func() {
			for events != nil { // until the monitor has ended
				if _, open := <-events; !open {
					return
				}
			}
		}()
		return f.born, f.hears
	}
}

// family is a process and those that it has started.
type family struct {
	members map[uint32]bool
	self    uint32
	born    int
	hears   bool
}

// take counts a new process; a new thread is none.
func (f *family) take(e netlink.ProcEvent) {
	fork, ok := e.Msg.(*netlink.ForkProcEvent)
	if !ok || fork.ChildPid != fork.ChildTgid {
		return
	}
	f.hears = f.hears || fork.ParentTgid == f.self
	if f.members[fork.ParentTgid] {
		f.members[fork.ChildTgid] = true
		f.born++
	}
}
