//go:build kernel

package kernel

import (
	"errors"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// A set that has more than was asked for is another set.
func TestCreateMismatchOfExtensions(t *testing.T) {
	c := open(t)
	for name, option := range map[string][]string{
		"A": {"timeout", "60"}, "B": {"counters"}, "C": {"skbinfo"}, "D": {"comment"}, "G": {"forceadd"},
	} {
		command(t, "ipset", append([]string{"create", name, "hash:ip,port"}, option...)...)
		s := ipsetutil.Set{Name: name, Type: ipsetutil.HashIPPort, Family: ipsetutil.IPv4, MaxElem: 65536}
		if err := c.Create(t.Context(), s); !errors.Is(err, ipsetutil.ErrMismatch) {
			t.Errorf("over a set with %v: %v, want ErrMismatch", option, err)
		}
		if h, err := c.Header(t.Context(), name); err != nil || h.Serves(s) || !h.Swappable(s) {
			t.Errorf("a set with %v serves for one without: %+v, error %v", option, h, err)
		}
	}
	command(t, "ipset", "create", "E", "bitmap:port", "range", "0-1000")
	if err := c.Create(t.Context(), ipsetutil.Set{Name: "E", Type: ipsetutil.BitmapPort}); !errors.Is(err, ipsetutil.ErrMismatch) {
		t.Errorf("over a bitmap of another range: %v", err)
	}
	if h, err := c.Header(t.Context(), "E"); err != nil || !h.Strange {
		t.Errorf("header of a bitmap of another range: %+v, error %v", h, err)
	}
	command(t, "ipset", "create", "F", "hash:ip,port", "hashsize", "64")
	s := ipsetutil.Set{Name: "F", Type: ipsetutil.HashIPPort, Family: ipsetutil.IPv4, MaxElem: 65536}
	if err := c.Create(t.Context(), s); err != nil {
		t.Errorf("over a set of another hash size: %v", err)
	}
}

func TestHeaders(t *testing.T) {
	c := open(t)
	fill(t, c)
	command(t, "iptables", "-w", "-A", "INPUT", "-m", "set", "--match-set", "KUBE-CLUSTER-IP", "dst,dst", "-j", "ACCEPT")
	headers, err := c.Headers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := ipsetutil.All()
	if len(headers) != len(all) {
		t.Errorf("%d headers of %d sets", len(headers), len(all))
	}
	for _, s := range all {
		want := ipsetutil.Header{Set: s, Entries: 3}
		if s.Type != ipsetutil.BitmapPort {
			want.HashSize = hashSize
		}
		if s.Name == "KUBE-CLUSTER-IP" {
			want.References = 1
		}
		if headers[s.Name] != want {
			t.Errorf("header %+v, want %+v", headers[s.Name], want)
		}
		if one, err := c.Header(t.Context(), s.Name); err != nil || one != want {
			t.Errorf("header %+v, want %+v, error %v", one, want, err)
		}
	}
	if _, err := c.Header(t.Context(), "MISSING"); !errors.Is(err, ipsetutil.ErrNoSet) {
		t.Errorf("header of a missing set: %v", err)
	}
}

func TestSwap(t *testing.T) {
	c := open(t)
	fill(t, c)
	s := ipsetutil.ClusterIP.For(false)
	spare := s
	spare.Name = "SPARE"
	e := entries(s)[1]
	if err := c.Create(t.Context(), spare); err != nil {
		t.Fatal(err)
	}
	if errs := c.Do(t.Context(), []ipsetutil.Change{{Member: ipsetutil.Member{Set: "SPARE", Entry: e}}}); errs != nil {
		t.Fatal(errs)
	}
	command(t, "iptables", "-w", "-A", "INPUT", "-m", "set", "--match-set", s.Name, "dst,dst", "-j", "ACCEPT")
	if err := c.Swap(t.Context(), "SPARE", s.Name); err != nil {
		t.Fatal(err)
	}
	got, err := c.Members(t.Context(), s.Name)
	if want := map[ipsetutil.Entry]uint32{e: 0}; err != nil || !maps.Equal(got, want) {
		t.Errorf("after the swap %v, error %v", got, err)
	}
	if got, err := c.Members(t.Context(), "SPARE"); err != nil || len(got) != 3 {
		t.Errorf("after the swap the spare has %v, error %v", got, err)
	}
	if err := c.Destroy(t.Context(), "SPARE"); err != nil {
		t.Error(err)
	}
	for _, other := range []struct {
		name string
		want error
	}{
		{"MISSING", ipsetutil.ErrNoSet},
		{ipsetutil.ClusterIP.Name(true), ipsetutil.ErrMismatch},
		{ipsetutil.IPVSIPs.Name(false), ipsetutil.ErrMismatch},
	} {
		if err := c.Swap(t.Context(), s.Name, other.name); !errors.Is(err, other.want) {
			t.Errorf("swap with %s: %v, want %v", other.name, err, other.want)
		}
	}
	if err := c.Swap(t.Context(), "MISSING", s.Name); !errors.Is(err, ipsetutil.ErrNoSet) {
		t.Errorf("swap of a missing set: %v", err)
	}
}

// A set that a rule uses can't be destroyed, but everything else.
func TestBusy(t *testing.T) {
	c := open(t)
	fill(t, c)
	for _, k := range []ipsetutil.Kind{ipsetutil.ClusterIP, ipsetutil.NodePortTCP} {
		s := k.For(false)
		rule := []string{"INPUT", "-p", "tcp", "-m", "set", "--match-set", s.Name, "dst,dst", "-j", "ACCEPT"}
		if s.Type == ipsetutil.BitmapPort {
			rule[7] = "dst"
		}
		command(t, "iptables", append([]string{"-w", "-A"}, rule...)...)
		if err := c.Destroy(t.Context(), s.Name); !errors.Is(err, ipsetutil.ErrBusy) {
			t.Errorf("destroy of %s in use: %v", s.Name, err)
		}
		if errs := c.Do(t.Context(), []ipsetutil.Change{
			{Delete: true, Member: ipsetutil.Member{Set: s.Name, Entry: entries(s)[0]}},
		}); errs != nil {
			t.Error(errs)
		}
		command(t, "iptables", append([]string{"-w", "-D"}, rule...)...)
		if err := c.Destroy(t.Context(), s.Name); err != nil {
			t.Errorf("destroy of %s no longer in use: %v", s.Name, err)
		}
	}
}

// The SET target takes the mark of an entry to the packet: rules are accepted, and a
// packet to the entry leaves with its mark.
func TestMarkReachesPackets(t *testing.T) {
	c := open(t)
	fill(t, c)
	for _, f := range []struct {
		program, command, address string
		set                       ipsetutil.Set
	}{
		{"iptables", "iptables-save", "127.0.0.1", ipsetutil.ShortCircuit.For(false)},
		{"ip6tables", "ip6tables-save", "::1", ipsetutil.ShortCircuit.For(true)},
	} {
		set := f.set.Name
		e := ipsetutil.Entry{Addr: netip.MustParseAddr(f.address), Protocol: 17, Port: 9}
		if errs := c.Do(t.Context(), []ipsetutil.Change{{Member: ipsetutil.Member{Set: set, Entry: e}, Mark: 0x7020001}}); errs != nil {
			t.Fatal(errs)
		}
		command(t, "ip", "link", "set", "lo", "up")
		match := []string{"-m", "set", "--match-set", set, "dst,dst"}
		command(t, f.program, append(append([]string{"-w", "-t", "mangle", "-A", "OUTPUT"}, match...),
			"-j", "SET", "--map-set", set, "dst,dst", "--map-mark")...)
		command(t, f.program, "-w", "-t", "mangle", "-A", "OUTPUT", "-m", "mark", "--mark", "0x7020001", "-j", "ACCEPT")
		send(t, f.address, 9)
		send(t, f.address, 10) // in no set
		listed := command(t, f.program, "-w", "-t", "mangle", "-nvxL", "OUTPUT")
		if n := packets(listed, "SET"); n != "1" {
			t.Errorf("%s packets met the SET rule:\n%s", n, listed)
		}
		if n := packets(listed, "ACCEPT"); n != "1" {
			t.Errorf("%s packets carry the mark:\n%s", n, listed)
		}
	}
}

// send sends one datagram.
func send(t *testing.T, address string, port int) {
	t.Helper()
	var to unix.Sockaddr = &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
	domain := unix.AF_INET
	if strings.Contains(address, ":") {
		a := netip.MustParseAddr(address)
		to, domain = &unix.SockaddrInet6{Port: port, Addr: a.As16()}, unix.AF_INET6
	}
	fd, err := unix.Socket(domain, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Sendto(fd, []byte("x"), 0, to); err != nil {
		t.Fatal(err)
	}
}

// packets returns the count of the rule with this target.
func packets(list, target string) string {
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == target {
			return fields[0]
		}
	}
	return "no"
}

// Sets of other types can be seen, but not listed or changed.
func TestForeignTypes(t *testing.T) {
	c := open(t)
	command(t, "ipset", "create", "NETS", "hash:net")
	command(t, "ipset", "add", "NETS", "10.0.0.0/8")
	command(t, "ipset", "create", "LISTS", "list:set")
	command(t, "ipset", "add", "LISTS", "NETS")
	for _, name := range []string{"NETS", "LISTS"} {
		if m, err := c.Members(t.Context(), name); !errors.Is(err, errForeignType) {
			t.Errorf("members of %s: %v, error %v", name, m, err)
		}
		errs := c.Do(t.Context(), []ipsetutil.Change{{Member: ipsetutil.Member{Set: name, Entry: ipsetutil.Entry{Port: 1}}}})
		if len(errs) != 1 || !errors.Is(errs[0], ipsetutil.ErrInvalid) {
			t.Errorf("change of %s: %v", name, errs)
		}
	}
	names, err := c.Names(t.Context())
	slices.Sort(names)
	if err != nil || !slices.Equal(names, []string{"LISTS", "NETS"}) {
		t.Errorf("names %v, error %v", names, err)
	}
	if err := c.Destroy(t.Context(), "NETS"); !errors.Is(err, ipsetutil.ErrBusy) {
		t.Errorf("destroy of a set in a list: %v", err)
	}
}

// An empty name, which to the kernel means all sets, does nothing.
func TestEmptyName(t *testing.T) {
	c := open(t)
	fill(t, c)
	_, members := c.Members(t.Context(), "")
	_, header := c.Header(t.Context(), "")
	for i, err := range []error{c.Destroy(t.Context(), ""), members, header, c.Swap(t.Context(), "", "KUBE-CLUSTER-IP")} {
		if err == nil {
			t.Errorf("call %d succeeded", i)
		}
	}
	if h, err := c.Headers(t.Context()); err != nil || len(h) != len(ipsetutil.All()) {
		t.Errorf("%d sets are left, error %v", len(h), err)
	}
}

// The kernel answers EINVAL to a subsystem of nfnetlink that it lacks; openError
// counts on it.
func TestMissingSubsystem(t *testing.T) {
	inNamespace(t)
	s, err := netlink.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	const unused = 15<<8 | 1
	_, err = s.Do(t.Context(), netlink.Request{Type: unused, Body: appendCommand(nil, "")})
	if err := openError(err); !errors.Is(err, ipsetutil.ErrNoIPSet) || !errors.Is(err, unix.EINVAL) {
		t.Errorf("error %v", err)
	}
}

func TestClosed(t *testing.T) {
	c := open(t)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Names(t.Context()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("names: %v", err)
	}
}
