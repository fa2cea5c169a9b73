package health

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

var (
	loopback4 = netip.MustParseAddr("127.0.0.1")
	loopback6 = netip.MustParseAddr("::1")
	web       = ServiceName{"default", "web"}
	shop      = ServiceName{"default", "shop"}
)

// freePort returns a port that nobody has on either loopback address.
func freePort(t *testing.T) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "[::]:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func url(addr netip.Addr, port uint16) string {
	return "http://" + netip.AddrPortFrom(addr, port).String() + "/any/path"
}

// running starts Checks at some addresses of a healthy proxy, and ends them with the test.
func running(t *testing.T, addrs ...netip.Addr) (*Checks, *atomic.Bool, chan error) {
	t.Helper()
	return runningAt(t, listenRetry, addrs...)
}

// runningAt is running, with another time between two tries.
func runningAt(t *testing.T, retry time.Duration, addrs ...netip.Addr) (c *Checks, healthy *atomic.Bool, failures chan error) {
	t.Helper()
	healthy, failures = new(atomic.Bool), make(chan error, 100)
	healthy.Store(true)
	c = NewChecks(healthy.Load, func(name ServiceName, err error) {
		failures <- fmt.Errorf("%s: %w", name, err)
	})
	c.retry = retry
	c.SetAddresses(addrs)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { c.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return c, healthy, failures
}

// answers waits until the port answers with a code and a weight; code zero: until it
// is closed.
func answers(t *testing.T, addr netip.Addr, port uint16, code, weight int) {
	t.Helper()
	eventually(t, func() bool {
		response, text := get(url(addr, port))
		if response == nil {
			return code == 0 && strings.Contains(text, "refused")
		}
		return response.StatusCode == code && response.Header.Get(weightHeader) == strconv.Itoa(weight)
	})
}

func TestStatement118Body(t *testing.T) {
	c, healthy, _ := running(t, loopback4)
	port := freePort(t)
	c.Update(map[ServiceName]Check{web: {Port: port, LocalReady: [2]int{2, 0}}})
	answers(t, loopback4, port, 200, 2)
	response, body := get(url(loopback4, port))
	const want = `{
	"service": {
		"namespace": "default",
		"name": "web"
	},
	"localEndpoints": 2,
	"serviceProxyHealthy": true
}`
	if body != want {
		t.Errorf("body %q, want %q", body, want)
	}
	for name, value := range map[string]string{
		"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", weightHeader: "2",
	} {
		if got := response.Header.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	healthy.Store(false)
	response, body = get(url(loopback4, port))
	if response.StatusCode != 503 || response.Header.Get(weightHeader) != "2" ||
		!strings.Contains(body, `"serviceProxyHealthy": false`) {
		t.Errorf("proxy not healthy: %d %q", response.StatusCode, body)
	}
}

// TestStatement119Families: each family answers for its own endpoints.
func TestStatement119Families(t *testing.T) {
	c, _, failures := running(t, loopback4, loopback6)
	port := freePort(t)
	c.Update(map[ServiceName]Check{web: {Port: port, LocalReady: [2]int{0, 3}}})
	answers(t, loopback4, port, 503, 0)
	answers(t, loopback6, port, 200, 3)
	c.Set(web, Check{Port: port, LocalReady: [2]int{1, 0}})
	answers(t, loopback4, port, 200, 1)
	answers(t, loopback6, port, 503, 0)
	if len(failures) > 0 {
		t.Error(<-failures)
	}
}

func TestChecksComeAndGo(t *testing.T) {
	c, _, failures := running(t, loopback4)
	one, two := freePort(t), freePort(t)
	ready := [2]int{1, 1}
	c.Update(map[ServiceName]Check{web: {one, ready}})
	answers(t, loopback4, one, 200, 1)

	c.Update(map[ServiceName]Check{web: {two, ready}})
	answers(t, loopback4, one, 0, 0)
	answers(t, loopback4, two, 200, 1)

	c.Update(map[ServiceName]Check{web: {one, ready}, shop: {two, [2]int{5, 5}}}) // the port goes over
	answers(t, loopback4, one, 200, 1)
	answers(t, loopback4, two, 200, 5)

	c.Set(web, Check{})
	answers(t, loopback4, one, 0, 0)
	answers(t, loopback4, two, 200, 5)

	c.Update(nil)
	answers(t, loopback4, two, 0, 0)
	if len(failures) > 0 {
		t.Error(<-failures)
	}
}

func TestAddressesAreFollowed(t *testing.T) {
	c, _, failures := running(t)
	port := freePort(t)
	other := netip.MustParseAddr("127.0.0.2")
	c.Update(map[ServiceName]Check{web: {port, [2]int{1, 1}}})
	answers(t, loopback4, port, 0, 0)
	c.SetAddresses([]netip.Addr{loopback4})
	answers(t, loopback4, port, 200, 1)
	answers(t, other, port, 0, 0)
	c.SetAddresses([]netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()})
	answers(t, other, port, 200, 1)
	answers(t, loopback4, port, 200, 1)
	answers(t, loopback6, port, 200, 1)
	c.SetAddresses([]netip.Addr{other, other, netip.MustParseAddr("fe80::1")})
	answers(t, other, port, 200, 1)
	answers(t, loopback4, port, 0, 0)
	answers(t, loopback6, port, 0, 0)
	if len(failures) > 0 {
		t.Error(<-failures)
	}
}

// TestUpdateTwice: to say the same again opens and closes nothing.
func TestUpdateTwice(t *testing.T) {
	c := NewChecks(func() bool { return true }, nil)
	same := func() {
		c.Update(map[ServiceName]Check{web: {1, [2]int{1, 1}}})
		c.SetAddresses([]netip.Addr{loopback6, loopback4})
		c.SetAddresses([]netip.Addr{loopback4, loopback6})
	}
	same()
	<-c.changed
	same()
	c.Update(map[ServiceName]Check{web: {1, [2]int{7, 7}}}) // a count opens nothing either
	c.Set(web, Check{1, [2]int{8, 8}})
	c.Set(shop, Check{})
	if len(c.changed) > 0 {
		t.Error("there is something to do")
	}
	if got := c.check(web); got.LocalReady != [2]int{8, 8} {
		t.Errorf("count %v", got.LocalReady)
	}
}

// TestStatement120Taken: a port that another process has is told once, and served
// when it is free.
func TestStatement120Taken(t *testing.T) {
	taken := listen(t, "127.0.0.1:0")
	port := uint16(taken.Addr().(*net.TCPAddr).Port)
	c, _, failures := runningAt(t, time.Millisecond, loopback4)
	c.Update(map[ServiceName]Check{shop: {port, [2]int{1, 1}}})
	if err := <-failures; !errors.Is(err, syscall.EADDRINUSE) || !strings.HasPrefix(err.Error(), "default/shop: ") {
		t.Errorf("failure %v", err)
	}
	free := freePort(t)
	c.Set(web, Check{free, [2]int{1, 1}}) // others are served meanwhile
	answers(t, loopback4, free, 200, 1)
	time.Sleep(50 * time.Millisecond)
	if len(failures) > 0 {
		t.Errorf("told %d times more", len(failures))
	}
	taken.Close()
	answers(t, loopback4, port, 200, 1)
	c.Set(shop, Check{}) // a new failure of the port is new
	answers(t, loopback4, port, 0, 0)
	listen(t, taken.Addr().String())
	for range 2 { // told anew each time the Service asks anew
		c.Set(shop, Check{port, [2]int{1, 1}})
		if err := <-failures; !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("failure %v", err)
		}
		c.Set(shop, Check{})
		answers(t, loopback4, free, 200, 1)
		time.Sleep(10 * time.Millisecond)
	}
}

// TestEndOfRun: the ports are closed when Run returns.
func TestEndOfRun(t *testing.T) {
	c := NewChecks(func() bool { return true }, nil)
	port := freePort(t)
	c.SetAddresses([]netip.Addr{loopback4})
	c.Set(web, Check{port, [2]int{1, 1}})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { c.Run(ctx); close(ended) }()
	answers(t, loopback4, port, 200, 1)
	cancel()
	<-ended
	if response, _ := get(url(loopback4, port)); response != nil {
		t.Errorf("answered %d after the end", response.StatusCode)
	}
}

// TestNewAddressGetsTime: an address that is not there is told only when it is
// still not there at the next try.
func TestNewAddressGetsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _, failures := running(t, netip.MustParseAddr("192.0.2.1"))
		c.Set(web, Check{8080, [2]int{1, 1}})
		synctest.Wait()
		if len(failures) != 0 {
			t.Fatalf("told at once: %v", <-failures)
		}
		time.Sleep(3 * listenRetry)
		synctest.Wait()
		if len(failures) != 1 {
			t.Errorf("%d failures told, want 1", len(failures))
		}
	})
}

// TestServerThatEnds: a listener that broke is opened anew; when it cannot be, that
// is told, though the port had failed and been told before.
func TestServerThatEnds(t *testing.T) {
	told := 0
	servers := newCheckServers(NewChecks(func() bool { return true }, func(ServiceName, error) { told++ }))
	defer servers.closeAll()
	at := place{web, freePort(t), loopback4}
	address := netip.AddrPortFrom(at.addr, at.port).String()
	match := func() { servers.match(t.Context(), map[place]bool{at: true}) }
	breakIt := func() {
		server := servers.open[at]
		server.listener.Close()
		eventually(t, server.ended.Load)
	}
	taken := listen(t, address)
	match()
	taken.Close()
	match()
	answers(t, loopback4, at.port, 503, 0)
	breakIt()
	match()
	answers(t, loopback4, at.port, 503, 0)
	if told != 1 {
		t.Errorf("told %d times, want 1", told)
	}
	breakIt()
	listen(t, address)
	match()
	if told != 2 {
		t.Errorf("told %d times, want 2", told)
	}
}

// TestCloseFreesThePort: a port is free when close returns, also when the server
// has not begun to serve.
func TestCloseFreesThePort(t *testing.T) {
	c := NewChecks(func() bool { return true }, nil)
	servers := newCheckServers(c)
	defer servers.closeAll()
	port := freePort(t)
	for i := range 200 {
		at := place{ServiceName{"default", strconv.Itoa(i)}, port, loopback4}
		if retry := servers.match(t.Context(), map[place]bool{at: true}); retry != nil {
			t.Fatalf("round %d: the port was not free", i)
		}
	}
}
