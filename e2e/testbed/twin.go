package testbed

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// Thread runs f on a new thread of the host and returns at once: sockets that f makes
// and programs that it starts are the host's, for as long as f takes. Goroutines that f
// starts are elsewhere. The channel is closed when f is done.
func (h *Host) Thread(f func(err error)) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with f
		f(unix.Setns(int(h.ns.fd.Fd()), unix.CLONE_NEWNET))
	}()
	return done
}

// NewTwin makes a host with the devices and addresses of a node and with no neighbour:
// what a proxy does to a kernel that has nothing of it yet. Close it.
func NewTwin(node string) (*Twin, error) {
	h, err := newHost(node)
	if err != nil {
		return nil, err
	}
	t := &Twin{h}
	if err := t.build(nodeSpec(node)); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Twin is a node's copy; see NewTwin.
type Twin struct{ *Host }

func (t *Twin) build(spec hostSpec) error {
	if err := errors.Join(t.addBridge("eth0"), t.addBridge("cbr0")); err != nil {
		return err
	}
	own := spec.podAddr(1)
	errs := []error{t.AddAddr("cbr0", own.v4, 24), t.AddAddr("cbr0", own.v6, 64)}
	for _, second := range []bool{true, false} {
		a := spec.addr(second)
		errs = append(errs, t.AddAddr("eth0", a.v4, 24), t.AddAddr("eth0", a.v6, 64))
	}
	return errors.Join(errs...)
}

// Close ends the twin.
func (t *Twin) Close() error { return t.close() }
