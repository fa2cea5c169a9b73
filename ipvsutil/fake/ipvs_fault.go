package fake

import (
	"fmt"
	"net/netip"

	"kube-ipvs-proxy/ipvsutil"
)

// IPVSCounts says what was asked of an IPVS double.
type IPVSCounts struct {
	// Ops are the requests that went out, by verb.
	Ops [ipvsutil.DeleteRealServer + 1]int
	// ListVirtual and ListReal count listings.
	ListVirtual, ListReal int
	// Needless counts requests to create what was there, to change or delete what
	// was not, and to change something into what it was.
	Needless int
	// Invalid counts ops that their Check refused: no request went out.
	Invalid int
	// Failed counts requests refused by Fail, FailNth or LoseNth.
	Failed int
}

// Total is the number of changes that were asked for.
func (c IPVSCounts) Total() int {
	total := 0
	for _, n := range c.Ops {
		total += n
	}
	return total
}

// IPVSRequest is one request as the hook IPVS.Fail sees it.
type IPVSRequest struct {
	Op   ipvsutil.Op // Verb is zero for listings
	List string      // what is listed: "virtual servers", "real servers of ..."
}

// fault is what happens to a request instead; done tells whether the change is
// made all the same.
type fault struct {
	err  error
	done bool
}

// Fail sets a hook that is asked before each request; its error is what the
// request gives, and nothing is changed by it. Nil ends the failures.
func (f *IPVS) Fail(hook func(IPVSRequest) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = nil
	if hook != nil {
		f.fault = func(r IPVSRequest) fault { return fault{err: hook(r)} }
	}
}

// FailNth lets the n-th request from now (1 is the next; each op of a batch and
// each listing is one) fail with err, and only that one.
func (f *IPVS) FailNth(n int, err error) {
	f.Fail(func(IPVSRequest) error {
		if n--; n == 0 {
			return err
		}
		return nil
	})
}

// LoseNth loses the answer to the n-th request from now: the change is made, and
// the error is ipvsutil.ErrUnknownOutcome.
func (f *IPVS) LoseNth(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault = func(IPVSRequest) fault {
		if n--; n == 0 {
			return fault{err: ipvsutil.ErrUnknownOutcome, done: true}
		}
		return fault{}
	}
}

func (f *IPVS) breaks(r IPVSRequest) fault {
	if f.fault == nil {
		return fault{}
	}
	broken := f.fault(r)
	if broken.err != nil {
		f.counts.Failed++
	}
	return broken
}

// Counts returns what was asked since the start or the last ResetCounts.
func (f *IPVS) Counts() IPVSCounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.counts
}

// ResetCounts sets all counts to zero.
func (f *IPVS) ResetCounts() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.counts = IPVSCounts{}
}

// Put makes or replaces a virtual server as a strange hand may do it: nothing is
// checked or counted. The real servers stay.
func (f *IPVS) Put(v ipvsutil.VirtualServer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.servers[v.Key]; ok {
		s.VirtualServer = v
		return
	}
	f.servers[v.Key] = &server{VirtualServer: v, reals: map[netip.AddrPort]ipvsutil.RealServerState{}}
}

// PutReal makes or replaces a real server with its connections; its virtual server
// has to be there. Nothing is checked or counted.
func (f *IPVS) PutReal(key ipvsutil.Key, r ipvsutil.RealServerState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s, ok := f.servers[key]
	if !ok {
		panic(fmt.Sprintf("PutReal: no virtual server %s", key))
	}
	s.reals[r.Addr] = r
}

// Remove deletes a virtual server, or nothing, as a strange hand may do it.
func (f *IPVS) Remove(key ipvsutil.Key) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.servers, key)
}

// RemoveReal deletes a real server, or nothing, as a strange hand may do it.
func (f *IPVS) RemoveReal(key ipvsutil.Key, addr netip.AddrPort) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s, ok := f.servers[key]; ok {
		delete(s.reals, addr)
	}
}
