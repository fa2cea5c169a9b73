package probe

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"testing"
)

// TestStreamReset: the other end hears a reset where Close would be an end of file.
func TestStreamReset(t *testing.T) {
	for name, end := range map[string]struct {
		how  func(*Stream) error
		want bool
	}{"reset": {(*Stream).Reset, true}, "close": {(*Stream).Close, false}} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			heard := make(chan error, 1)
			go func() {
				c, err := l.Accept()
				if err != nil {
					heard <- err
					return
				}
				defer func() { _ = c.Close() }()
				r := bufio.NewReader(c)
				_, _ = fmt.Fprintln(c, "{}") // an answer
				for err == nil {
					_, err = r.ReadString('\n')
				}
				heard <- err
			}()
			st, err := New("me", nil).Hold(Call{Protocol: TCP, To: netip.MustParseAddrPort(l.Addr().String())})
			if err != nil {
				t.Fatal(err)
			}
			if err := end.how(st); err != nil {
				t.Fatal(err)
			}
			if err := <-heard; errors.Is(err, syscall.ECONNRESET) != end.want {
				t.Errorf("the other end heard: %v", err)
			}
		})
	}
}
