package netlink

import (
	"errors"
	"fmt"
	"syscall"
)

// ErrLost: the request went out but its reply did not come (the receive buffer
// overflowed, or the wait ended); it may have been carried out or not. Whoever
// keeps a picture of the kernel has to read it again.
var ErrLost = errors.New("netlink reply lost, outcome unknown")

// ErrInterrupted: the dumped table changed under the dump, so the list may lack
// entries or hold some twice. Dump again.
var ErrInterrupted = errors.New("netlink dump interrupted by a change")

// ErrTruncated: a message or an attribute is shorter than it says, or than its
// type needs.
var ErrTruncated = errors.New("truncated netlink data")

// errTooLong: the request does not fit into one message.
var errTooLong = fmt.Errorf("netlink message is longer than %d bytes", maxMessage)

// Error is the kernel's answer to a request that failed.
type Error struct {
	// Errno is the errno; ipset has own ones from 4096 up.
	Errno syscall.Errno
	// Echo is the body of the request as the kernel echoed it; ipset writes the
	// number of the failing entry into it. Nil when the kernel echoed none.
	Echo []byte
}

// Error returns the text of the errno.
func (e *Error) Error() string { return e.Errno.Error() }

// Unwrap gives the errno, so that errors.Is finds it (and fs.ErrExist for EEXIST,
// fs.ErrNotExist for ENOENT).
func (e *Error) Unwrap() error { return e.Errno }

// lost says why the outcome is unknown.
func lost(cause error) error { return fmt.Errorf("%w: %w", ErrLost, cause) }
