//go:build kernel

package netfilter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// room is a network namespace with a thread of its own that works in it.
type room struct {
	tid  int
	work chan func()
}

// newRoom makes a namespace; its thread ends with the test.
func newRoom(t *testing.T) *room {
	t.Helper()
	r := &room{work: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		r.tid = unix.Gettid()
		ready <- unix.Unshare(unix.CLONE_NEWNET)
		for f := range r.work {
			f()
		}
	}()
	t.Cleanup(func() { close(r.work) })
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	return r
}

// do runs f in the namespace and waits for it. f must not call t.FailNow.
func (r *room) do(f func()) {
	done := make(chan struct{})
	r.work <- func() { defer close(done); f() }
	<-done
}

// Addresses of the lab, IPv4 and IPv6: the node and the client on their link, a pod
// address that the client has too, a Service address bound on the node, and an
// external address that the node routes to the client.
var (
	nodeAddr   = [2]string{"192.0.2.1", "2001:db8::1"}
	clientAddr = [2]string{"192.0.2.10", "2001:db8::10"}
	podAddr    = [2]string{"10.244.9.9", "fd00:10:244::99"}
	boundAddr  = [2]string{"10.96.0.10", "fd00:10:96::a"}
	outerAddr  = [2]string{"203.0.113.7", "2001:db8:cafe::7"}
)

// newLab makes the namespace of the test a node, with a client behind a link.
func newLab(t *testing.T) *room {
	t.Helper()
	newNamespace(t)
	client := newRoom(t)
	failed := noDAD()
	client.do(func() { failed = errors.Join(failed, noDAD()) })
	node := []string{
		"link add node0 type veth peer name client0 netns " + strconv.Itoa(client.tid),
		"link set node0 up",
	}
	far := []string{"link set lo up", "link set client0 up"}
	for i := range 2 {
		length, full := []string{"/24", "/64"}[i], []string{"/32", "/128"}[i]
		node = append(node,
			"addr add "+nodeAddr[i]+length+" dev node0",
			"addr add "+boundAddr[i]+full+" dev lo",
			"route add default via "+clientAddr[i],
			"route add "+podAddr[i]+full+" via "+clientAddr[i])
		far = append(far,
			"addr add "+clientAddr[i]+length+" dev client0",
			"addr add "+podAddr[i]+full+" dev client0",
			"route add default via "+nodeAddr[i])
	}
	failed = errors.Join(failed, try(strings.Join(node, "\n"), "ip", "-batch", "-"))
	client.do(func() { failed = errors.Join(failed, try(strings.Join(far, "\n"), "ip", "-batch", "-")) })
	if failed != nil {
		t.Fatal(failed)
	}
	return client
}

// noDAD makes IPv6 addresses of new devices usable at once.
func noDAD() error { return try("", "sysctl", "-qw", "net.ipv6.conf.default.accept_dad=0") }

// serve answers each TCP connection to the ports, on all addresses of the test's
// namespace, with the port's number. stop ends it.
func serve(t *testing.T, ports ...int) (stop func()) {
	t.Helper()
	var listeners []net.Listener
	for _, port := range ports {
		l, err := net.Listen("tcp", fmt.Sprintf("[::]:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, l)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = fmt.Fprint(c, port)
				c.Close()
			}
		}()
	}
	return func() {
		for _, l := range listeners {
			l.Close()
		}
	}
}

// dropWait is how long a request waits before it counts as dropped. An answer is
// there after milliseconds; IPVS's own refusals of IPv6 take a second.
const dropWait = 700 * time.Millisecond

// ask connects from a source (or any) with a firewall mark (or none) and returns what
// the server says, "refused", or "dropped" when nothing comes.
func ask(source, to string, port int, mark int) string {
	ctx, cancel := context.WithTimeout(context.Background(), dropWait)
	defer cancel()
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			if mark != 0 {
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, mark)
			}
		})
	}}
	if source != "" {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(source), 0))
	}
	c, err := d.DialContext(ctx, "tcp", net.JoinHostPort(to, strconv.Itoa(port)))
	if err != nil {
		return verdict(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(dropWait))
	said, err := io.ReadAll(c)
	if err != nil {
		return verdict(err)
	}
	return string(said)
}

// askUDP sends a datagram and waits for an answer of any kind.
func askUDP(to string, port int) string {
	c, err := net.Dial("udp", net.JoinHostPort(to, strconv.Itoa(port)))
	if err != nil {
		return verdict(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(dropWait))
	if _, err := c.Write([]byte("?")); err != nil {
		return verdict(err)
	}
	_, err = c.Read(make([]byte, 10))
	return verdict(err)
}

// ping sends an echo request and waits for what comes: over IPv6 the kernel fills in
// the checksum.
func ping(to string) string {
	network, request := "ip4:icmp", []byte{8, 0, 0xf7, 0xff, 0, 0, 0, 0}
	if strings.Contains(to, ":") {
		network, request[0] = "ip6:ipv6-icmp", 128
	}
	c, err := net.DialIP(network, nil, &net.IPAddr{IP: net.ParseIP(to)})
	if err != nil {
		return verdict(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(dropWait))
	if _, err := c.Write(request); err != nil {
		return verdict(err)
	}
	reply := make([]byte, 100)
	if _, _, err := c.ReadFromIP(reply); err != nil {
		return verdict(err)
	}
	if reply[0] != 0 && reply[0] != 129 {
		return fmt.Sprintf("ICMP type %d", reply[0])
	}
	return "answered"
}

func verdict(err error) string {
	var timeout net.Error
	switch {
	case err == nil:
		return "answered"
	case errors.Is(err, unix.ECONNREFUSED):
		return "refused"
	case errors.As(err, &timeout) && timeout.Timeout():
		return "dropped"
	}
	return err.Error()
}

// ask asks from the room.
func (r *room) ask(source, to string, port int) (answer string) {
	r.do(func() { answer = ask(source, to, port, 0) })
	return answer
}

// member adds an entry to the set of a family, as ipset writes it.
func member(t *testing.T, set string, entry ...string) {
	t.Helper()
	command(t, "", "ipset", append([]string{"add", set}, entry...)...)
}

// try runs a program without a test at hand.
func try(stdin, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return nil
}
