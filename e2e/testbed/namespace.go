package testbed

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// namespace is a network namespace and the thread that lives in it. It has no
// name in the file system: it ends with its thread, its processes and sockets,
// so nothing is left behind however this process ends.
type namespace struct {
	jobs chan func()
	fd   *os.File // for moving devices into it
}

func newNamespace() (*namespace, error) {
	n := &namespace{jobs: make(chan func())}
	ready := make(chan error)
	go n.live(ready)
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("network namespace: %w", err)
	}
	return n, nil
}

// live is the thread. It is never unlocked: its end ends the thread as well.
func (n *namespace) live(ready chan<- error) {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		ready <- err
		return
	}
	var err error
	n.fd, err = os.Open("/proc/thread-self/ns/net")
	ready <- err
	if err != nil {
		return
	}
	for job := range n.jobs {
		job()
	}
}

// do runs f on the namespace's thread and waits for it. Processes started in f
// live in the namespace, and so do sockets made in f.
func (n *namespace) do(f func()) {
	done := make(chan struct{})
	n.jobs <- func() {
		defer close(done)
		f()
	}
	<-done
}

// try is do for functions that can fail.
func (n *namespace) try(f func() error) (err error) {
	n.do(func() { err = f() })
	return err
}

// close ends the thread; the namespace goes when its processes have ended.
func (n *namespace) close() error {
	close(n.jobs)
	return n.fd.Close()
}
