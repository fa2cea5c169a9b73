//go:build kernel

package takeover

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
)

// late is how long pods take to answer here: at any moment some answers are under way.
const late = time.Second

// TestAnswersUnderWay: processes of the node that asked a load balancer's address by UDP,
// which another proxy had bound so that it is their source, get their answers though the
// address is unbound; so do those that ask meanwhile, and the address stays as long as a
// connected socket has it.
func TestAnswersUnderWay(t *testing.T) {
	lab, err := testbed.New()
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, lab: lab}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	s.do(apply(lab, cluster))
	var held []net.Conn
	asked := &questions{stop: make(chan struct{})}
	for _, f := range testbed.Families() {
		for _, pod := range cluster.pods {
			s.do(answerLate(lab.Host(pod), f))
		}
		leaveIPVS(s, leftovers{lab, f, []service{cluster}})
		at := cluster.at(cluster.lbIP(f))
		c, err := asks(lab.Host(node), at)
		s.do(err)
		if got := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr(); got != at.Addr() {
			t.Fatalf("a process asks %v from %v: this shows nothing", at, got)
		}
		held = append(held, c)
		asked.loops.Go(func() { asked.run(lab.Host(node), at) })
	}
	end := sync.OnceFunc(func() { close(asked.stop); asked.loops.Wait() })
	t.Cleanup(end)
	time.Sleep(calm)
	s.do(lab.Proxy(node).Start())
	s.settle()
	s.until("others ask from the node's own address", func(f testbed.Family) bool {
		return !strings.Contains(s.route(f), " src "+cluster.lbIP(f).String())
	})
	time.Sleep(2 * calm)
	for _, c := range held {
		if err := answered(c); err != nil {
			t.Errorf("a socket that had the address: %v", err)
		}
		_ = c.Close()
	}
	s.until("the address is unbound", func(f testbed.Family) bool { return !strings.HasPrefix(s.route(f), "local ") })
	time.Sleep(calm)
	end()
	if len(asked.failed) > 0 || asked.number == 0 {
		t.Errorf("%d of %d requests failed: %v", len(asked.failed), asked.number, errors.Join(asked.failed...))
	}
	s.do(lab.Proxy(node).Stop(t.Context()))
}

// route is the way from the node to the load balancer's address.
func (s *stage) route(f testbed.Family) string {
	s.Helper()
	return s.tool("ip route get " + cluster.lbIP(f).String())
}

// until waits for something in both families.
func (s *stage) until(what string, is func(testbed.Family) bool) {
	s.Helper()
	for deadline := time.Now().Add(time.Minute); !is(testbed.IPv4) || !is(testbed.IPv6); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(deadline) {
			s.Fatalf("not within a minute: %s", what)
		}
	}
}

// answerLate lets a pod answer by UDP, until the pod ends.
func answerLate(h *testbed.Host, f testbed.Family) error {
	var c net.PacketConn
	err := h.Do(func() (err error) {
		c, err = net.ListenPacket("udp", netip.AddrPortFrom(h.Addr(f), podPort).String())
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", h.Name(), err)
	}
	go func() {
		for {
			question := make([]byte, 8)
			n, from, err := c.ReadFrom(question)
			if err != nil {
				return
			}
			time.AfterFunc(late, func() { _, _ = c.WriteTo(question[:n], from) }) // who asked finds out
		}
	}()
	return nil
}

// asks connects a socket and sends a question.
func asks(h *testbed.Host, to netip.AddrPort) (c net.Conn, err error) {
	err = h.Do(func() (err error) {
		c, err = net.Dial("udp", to.String())
		return err
	})
	if err == nil {
		_, err = c.Write([]byte("?"))
	}
	return c, err
}

// answered waits for the answer to a question.
func answered(c net.Conn) error {
	if err := c.SetReadDeadline(time.Now().Add(late + answerLimit)); err != nil {
		return err
	}
	n, err := c.Read(make([]byte, 8))
	if err == nil && n != 1 {
		err = fmt.Errorf("%d bytes", n)
	}
	return err
}

// questions are asked all the time, each from a new port.
type questions struct {
	stop  chan struct{}
	loops sync.WaitGroup

	mu     sync.Mutex
	number int
	failed []error
}

func (q *questions) run(h *testbed.Host, to netip.AddrPort) {
	for {
		select {
		case <-q.stop:
			return
		case <-time.After(100 * time.Millisecond):
		}
		q.loops.Go(func() {
			c, err := asks(h, to)
			if err == nil {
				err = answered(c)
			}
			q.mu.Lock()
			defer q.mu.Unlock()
			q.number++
			if err != nil {
				q.failed = append(q.failed, err)
			}
			if c != nil {
				_ = c.Close()
			}
		})
	}
}
