package fake

import (
	"context"

	"kube-ipvs-proxy/ipsetutil"
)

// Counts says what a Fake was asked for.
type Counts struct {
	// Requests are the calls of Create, Names, Headers, Header, Holds, Members, Swap and Destroy, and the single
	// changes of Do; also those that failed.
	Requests int
	// Needless are those of them that found what they wanted to bring about: creates
	// of present sets, destroys of missing ones, adds of present entries with an
	// equal mark, deletes of missing entries.
	Needless int
}

// Fault decides whether a request fails, before it does anything: nil lets it
// pass. Op is one of create, list, test, add, delete, swap, destroy; object is the set,
// the member, both sets of a swap, "names", "headers" or "members". It is called under the Fake's lock.
type Fault func(op, object string) error

// Counts returns the counts since New or ResetCounts.
func (f *Fake) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// ResetCounts sets all counts to zero.
func (f *Fake) ResetCounts() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts = Counts{}
}

// SetFault makes fault decide on all further requests; nil ends that.
func (f *Fake) SetFault(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = fault
}

// FailNth makes the n-th request from now fail with err, and only that one. The
// first is n = 1.
func (f *Fake) FailNth(n int, err error) {
	f.SetFault(func(string, string) error {
		n--
		if n == 0 {
			return err
		}
		return nil
	})
}

// request is the one way in: it locks, counts, fails on demand, and names what failed.
func (f *Fake) request(ctx context.Context, op, object string, do func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts.Requests++
	err := ctx.Err()
	if err == nil && f.fault != nil {
		err = f.fault(op, object)
	}
	if err == nil {
		err = do()
	}
	if err == nil {
		return nil
	}
	return &ipsetutil.OpError{Op: op, Object: object, Err: err}
}
