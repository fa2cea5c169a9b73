package room

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// namespace is a network namespace and the thread that lives in it. It has no name in
// the file system: it ends with its thread, its processes and its sockets.
type namespace struct {
	jobs chan func()
	fd   *os.File
	nl   *netlink.Handle
}

func newNamespace() (*namespace, error) {
	n := &namespace{jobs: make(chan func())}
	ready := make(chan error)
	go n.live(ready)
	if err := <-ready; err != nil {
		return nil, fmt.Errorf("network namespace (this needs root): %w", err)
	}
	return n, n.quiet()
}

// live is the thread. It is never unlocked: its end ends the thread as well.
func (n *namespace) live(ready chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The process's first thread cannot end, and a namespace that lived on it would
		// stay. As long as it is held here, another one is taken.
		defer runtime.UnlockOSThread()
		ended := make(chan struct{})
		go func() { defer close(ended); n.live(ready) }()
		<-ended
		return
	}
	ready <- func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if n.fd, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		n.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	}()
	for job := range n.jobs {
		job()
	}
}

// do runs f on the namespace's thread: sockets and processes made there are its own.
func (n *namespace) do(f func() error) error {
	done := make(chan error)
	n.jobs <- func() { done <- f() }
	return <-done
}

// quiet brings lo up and turns off what would delay or lose packets here.
func (n *namespace) quiet() error {
	lo, err := n.nl.LinkByName("lo")
	if err != nil {
		return err
	}
	return errors.Join(n.nl.LinkSetUp(lo),
		n.sysctl("net/ipv4/conf/all/rp_filter", "0"), n.sysctl("net/ipv4/conf/default/rp_filter", "0"),
		n.sysctl("net/ipv4/ip_forward", "1"), n.sysctl("net/ipv4/icmp_ratelimit", "0"))
}

// sysctl writes a setting of the namespace.
func (n *namespace) sysctl(name, value string) error {
	return n.do(func() error { return os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0) })
}

func (n *namespace) close() {
	close(n.jobs)
	n.nl.Close()
	_ = n.fd.Close() // nothing was written
}
