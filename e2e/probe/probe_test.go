package probe

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

var loopbacks = []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()}

// onLoopback runs a test for TCP and UDP at both loopback addresses.
func onLoopback(t *testing.T, test func(t *testing.T, proto Protocol, addr netip.Addr)) {
	for _, proto := range []Protocol{TCP, UDP} {
		for _, addr := range loopbacks {
			t.Run(fmt.Sprintf("%v %v", proto, addr), func(t *testing.T) { test(t, proto, addr) })
		}
	}
}

func serve(t *testing.T, p *Probe, proto Protocol, addr netip.Addr) *Server {
	t.Helper()
	s, err := p.Serve(proto, netip.AddrPortFrom(addr, 0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // some tests close it earlier
	return s
}

func TestAnswerNamesBothEnds(t *testing.T) {
	onLoopback(t, func(t *testing.T, proto Protocol, addr netip.Addr) {
		p := New("me", nil)
		s := serve(t, p, proto, addr)
		r := p.Do(Call{Protocol: proto, To: s.Addr()})
		want := Answer{Who: "me", Source: r.Client, Local: s.Addr()}
		if r.Outcome != OK || r.Answer != want || r.Client.Addr() != addr {
			t.Errorf("got %v, want %+v", r, want)
		}
	})
}

func TestCallFromChosenPort(t *testing.T) {
	onLoopback(t, func(t *testing.T, proto Protocol, addr netip.Addr) {
		p := New("me", nil)
		s := serve(t, p, proto, addr)
		free := serve(t, p, proto, addr)
		from := free.Addr()
		if err := free.Close(); err != nil {
			t.Fatal(err)
		}
		if r := p.Do(Call{Protocol: proto, To: s.Addr(), From: from}); r.Outcome != OK || r.Source != from {
			t.Errorf("got %v, want a call from %v", r, from)
		}
	})
}

func TestClosedPortRefusesAtOnce(t *testing.T) {
	onLoopback(t, func(t *testing.T, proto Protocol, addr netip.Addr) {
		p := New("me", nil)
		s := serve(t, p, proto, addr)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		r := p.Do(Call{Protocol: proto, To: s.Addr()})
		if r.Outcome != Refused || r.Took > time.Second || r.Err == nil {
			t.Errorf("got %v, want refused at once", r)
		}
	})
}

func TestSilenceIsTimeout(t *testing.T) {
	onLoopback(t, func(t *testing.T, proto Protocol, addr netip.Addr) {
		const timeout = 300 * time.Millisecond
		r := New("me", nil).Do(Call{Protocol: proto, To: silent(t, proto, addr), Timeout: timeout})
		if r.Outcome != Timeout || r.Took < timeout || r.Took > 10*timeout {
			t.Errorf("got %v, want a timeout after %v", r, timeout)
		}
	})
}

// silent opens a port that takes everything and says nothing.
func silent(t *testing.T, proto Protocol, addr netip.Addr) netip.AddrPort {
	t.Helper()
	if proto == UDP {
		c, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c.LocalAddr().(*net.UDPAddr).AddrPort()
	}
	l := listenTCP(t, addr)
	return l.Addr().(*net.TCPAddr).AddrPort()
}

func listenTCP(t *testing.T, addr netip.Addr) *net.TCPListener {
	t.Helper()
	l, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, 0)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestResetIsToldApart(t *testing.T) {
	for _, addr := range loopbacks {
		l := listenTCP(t, addr)
		go func() {
			c, err := l.AcceptTCP()
			if err != nil {
				return
			}
			_ = c.SetLinger(0)
			_ = c.Close()
		}()
		r := New("me", nil).Do(Call{Protocol: TCP, To: l.Addr().(*net.TCPAddr).AddrPort()})
		if r.Outcome != Reset {
			t.Errorf("%v: got %v, want reset", addr, r)
		}
	}
}

func TestManyAtOnce(t *testing.T) {
	onLoopback(t, func(t *testing.T, proto Protocol, addr netip.Addr) {
		p := New("me", nil)
		s := serve(t, p, proto, addr)
		sources := map[netip.AddrPort]bool{}
		for _, r := range p.Many(Call{Protocol: proto, To: s.Addr()}, 50, 10) {
			if r.Outcome != OK {
				t.Errorf("got %v", r)
			}
			sources[r.Source] = true
		}
		if len(sources) < 10 {
			t.Errorf("50 calls came from %d ports only", len(sources))
		}
	})
}

func TestStream(t *testing.T) {
	for _, addr := range loopbacks {
		p := New("me", nil)
		s := serve(t, p, TCP, addr)
		st, err := p.Hold(Call{Protocol: TCP, To: s.Addr()})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := st.Alive(time.Second); err != nil {
				t.Error(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := st.Alive(time.Second); err == nil {
			t.Error("stream is alive without its server")
		}
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestHoldTellsWhy(t *testing.T) {
	p := New("me", nil)
	s := serve(t, p, TCP, loopbacks[0])
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Hold(Call{Protocol: TCP, To: s.Addr()}); outcome(err) != Refused {
		t.Errorf("got %v, want refused", err)
	}
	if _, err := p.Hold(Call{Protocol: UDP, To: s.Addr()}); err == nil {
		t.Error("a stream over UDP")
	}
}

func TestForeignServerIsNoSuccess(t *testing.T) {
	l := listenTCP(t, loopbacks[0])
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write([]byte("220 hello\n"))
		_ = c.Close()
	}()
	r := New("me", nil).Do(Call{Protocol: TCP, To: l.Addr().(*net.TCPAddr).AddrPort()})
	if r.Outcome != Failed {
		t.Errorf("got %v, want failed", r)
	}
}

func TestOutcome(t *testing.T) {
	for err, want := range map[error]Outcome{
		nil:                             OK,
		os.ErrDeadlineExceeded:          Timeout,
		unix.ETIMEDOUT:                  Timeout,
		unix.ECONNREFUSED:               Refused,
		unix.ECONNRESET:                 Reset,
		unix.EHOSTUNREACH:               Unreachable,
		unix.ENETUNREACH:                Unreachable,
		unix.EPERM:                      Denied,
		unix.EADDRNOTAVAIL:              Failed,
		fmt.Errorf("x: %w", unix.EPERM): Denied,
	} {
		if got := outcome(err); got != want {
			t.Errorf("%v: got %s, want %s", err, got, want)
		}
	}
}

func TestParsePacket(t *testing.T) {
	v4 := []byte{0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39, 0x1f, 0x90}
	options := append([]byte{0x46}, v4[1:20]...)
	options = append(append(options, 1, 1, 1, 1), v4[20:]...)
	v6 := append([]byte{0x60, 0, 0, 0, 0, 20, 6, 64}, make([]byte, 32)...)
	v6[8], v6[23], v6[24], v6[39] = 0xfd, 1, 0xfd, 2
	v6 = append(v6, 0x30, 0x39, 0x1f, 0x90)
	udp := Packet{UDP, netip.MustParseAddr("10.0.0.1"), netip.MustParseAddrPort("10.0.0.2:8080")}
	tcp6 := Packet{TCP, netip.MustParseAddr("fd00::1"), netip.MustParseAddrPort("[fd00::2]:8080")}
	short := Packet{UDP, udp.Source, netip.AddrPortFrom(udp.Destination.Addr(), 0)}
	for _, c := range []struct {
		name      string
		etherType uint16
		bytes     []byte
		want      Packet
		ok        bool
	}{
		{"IPv4", unix.ETH_P_IP, v4, udp, true},
		{"IPv4 with options", unix.ETH_P_IP, options, udp, true},
		{"IPv4 cut behind its header", unix.ETH_P_IP, v4[:20], short, true},
		{"IPv4 cut in its header", unix.ETH_P_IP, v4[:19], Packet{}, false},
		{"IPv6", unix.ETH_P_IPV6, v6, tcp6, true},
		{"ARP", unix.ETH_P_ARP, v4, Packet{}, false},
	} {
		if got, ok := parsePacket(c.etherType, c.bytes); got != c.want || ok != c.ok {
			t.Errorf("%s: got %v %v, want %v %v", c.name, got, ok, c.want, c.ok)
		}
	}
}
