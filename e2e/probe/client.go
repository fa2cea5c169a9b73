package probe

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// DefaultTimeout is how long a call waits when it does not say: long enough for
// two retransmissions of a lost first packet.
const DefaultTimeout = 4 * time.Second

// Call says whom to ask, and how.
type Call struct {
	Protocol Protocol
	To       netip.AddrPort
	From     netip.AddrPort // zero: the kernel's choice; port zero: any
	Device   string         // SO_BINDTODEVICE; empty: none
	Mark     uint32         // SO_MARK; zero: none
	Timeout  time.Duration  // zero: DefaultTimeout
}

// Do asks once.
func (p *Probe) Do(c Call) Result {
	began := time.Now()
	s, r := p.ask(c, began)
	if s.File != nil {
		_ = s.Close()
	}
	return r
}

// Many asks n times, with at most atOnce calls under way (less than one means
// one), and returns the results in the order of the calls.
func (p *Probe) Many(c Call, n, atOnce int) []Result {
	results := make([]Result, n)
	slots := make(chan struct{}, max(atOnce, 1))
	var wg sync.WaitGroup
	for i := range results {
		slots <- struct{}{}
		wg.Go(func() {
			results[i] = p.Do(c)
			<-slots
		})
	}
	wg.Wait()
	return results
}

// ask connects and reads the answer. The socket is open if its File is not nil.
func (p *Probe) ask(c Call, began time.Time) (socket, Result) {
	end := func(s socket, a Answer, err error) (socket, Result) {
		r := Result{Outcome: outcome(err), Answer: a, Took: time.Since(began)}
		if s.File != nil {
			r.Client, _ = s.local() // a socket that failed may have none
		}
		if err != nil {
			r.Err = fmt.Errorf("%v %v: %w", c.Protocol, c.To, err)
		}
		return s, r
	}
	s, err := p.dial(c, began)
	if err != nil {
		return end(s, Answer{}, err)
	}
	if c.Protocol == UDP {
		if _, err := s.Write([]byte("?\n")); err != nil {
			return end(s, Answer{}, err)
		}
	}
	a, err := readAnswer(s)
	return end(s, a, err)
}

// dial opens and connects a socket; its deadline is that of the call.
func (p *Probe) dial(c Call, began time.Time) (socket, error) {
	fd, err := p.open(c.Protocol, c.To.Addr(), socketOptions{bind: c.From, device: c.Device, mark: c.Mark})
	if err != nil {
		return socket{}, err
	}
	if err := unix.Connect(fd, sockaddr(c.To)); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		return socket{}, errors.Join(err, unix.Close(fd))
	}
	s, err := wrap(fd, "client")
	if err != nil {
		return socket{}, err
	}
	timeout := c.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	if err := s.SetDeadline(began.Add(timeout)); err != nil {
		return s, err
	}
	return s, s.connected()
}

// readAnswer reads the server's line and nothing behind it: the server says no
// more before it is asked.
func readAnswer(s socket) (Answer, error) {
	line, err := bufio.NewReader(s).ReadBytes('\n')
	if err != nil {
		return Answer{}, err
	}
	var a Answer
	if err := json.Unmarshal(line, &a); err != nil {
		return Answer{}, fmt.Errorf("not a probe's answer: %q: %w", line, err)
	}
	return a, nil
}
