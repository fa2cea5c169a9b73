package probe

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Outcome is how a call ended, in the words of the client's socket.
type Outcome string

// The outcomes. Refused is ECONNREFUSED, by a reset or by ICMP. Denied is EPERM:
// a filter of the own host dropped the packet.
const (
	OK          Outcome = "ok"
	Refused     Outcome = "refused"
	Timeout     Outcome = "timeout"
	Reset       Outcome = "reset"
	Unreachable Outcome = "unreachable"
	Denied      Outcome = "denied"
	Failed      Outcome = "failed" // anything else; see Result.Err
)

// Result is the end of one call.
type Result struct {
	Outcome Outcome
	Answer                 // who answered; zero unless OK
	Client  netip.AddrPort // the client's own address, once it has one
	Took    time.Duration  // from the first system call to the answer or the error
	Err     error          // nil if OK
}

// String shows the result in one line.
func (r Result) String() string {
	took := r.Took.Round(time.Millisecond)
	if r.Outcome == OK {
		return fmt.Sprintf("%s at %v saw %v, client is %v (%v)", r.Who, r.Local, r.Source, r.Client, took)
	}
	return fmt.Sprintf("%s after %v: %v", r.Outcome, took, r.Err)
}

// outcome names an error of the kernel or of the poller.
func outcome(err error) Outcome {
	switch {
	case err == nil:
		return OK
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, unix.ETIMEDOUT):
		return Timeout
	case errors.Is(err, unix.ECONNREFUSED):
		return Refused
	case errors.Is(err, unix.ECONNRESET), errors.Is(err, unix.EPIPE):
		return Reset
	case errors.Is(err, unix.EHOSTUNREACH), errors.Is(err, unix.ENETUNREACH):
		return Unreachable
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return Denied
	}
	return Failed
}
