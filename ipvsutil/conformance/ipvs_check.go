package conformance

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"net/netip"
	"strings"
	"syscall"
	"testing"

	"kube-ipvs-proxy/ipvsutil"
)

// meaning is what an error of the door must say: the sentinel, and the errno that
// the kernel gives.
type meaning struct {
	sentinel error
	errno    syscall.Errno
}

var (
	fine      = meaning{}
	exists    = meaning{fs.ErrExist, syscall.EEXIST}
	noServer  = meaning{fs.ErrNotExist, syscall.ESRCH}
	noReal    = meaning{fs.ErrNotExist, syscall.ENOENT}
	invalid   = meaning{syscall.EINVAL, syscall.EINVAL}
	noSuchOne = meaning{ipvsutil.ErrUnknownScheduler, syscall.ENOENT}
	unnamable = meaning{ipvsutil.ErrUnknownScheduler, 0} // never reaches the kernel
)

// step is one op and what must come of it.
type step struct {
	op   ipvsutil.Op
	want meaning
}

func (s step) check(t *testing.T, err error) {
	t.Helper()
	mean(t, s.op, err, s.want)
}

// mean checks an error's meaning, that no other is found in it, and that it is an
// OpError that names verb and object.
func mean(t *testing.T, op ipvsutil.Op, err error, want meaning) {
	t.Helper()
	if want == fine {
		if err != nil {
			t.Errorf("%s: %v", op, err)
		}
		return
	}
	var e *ipvsutil.OpError
	if !errors.As(err, &e) || e.Op+" "+e.Object != op.String() {
		t.Errorf("%s: error %v is no OpError of it", op, err)
	}
	if want.errno != 0 && !errors.Is(err, want.errno) {
		t.Errorf("%s: error %v is not %v", op, err, want.errno)
	}
	for _, sentinel := range []error{fs.ErrExist, fs.ErrNotExist, ipvsutil.ErrUnknownScheduler, syscall.EINVAL, ipvsutil.ErrUnknownOutcome} {
		if errors.Is(err, sentinel) != errors.Is(want.sentinel, sentinel) {
			t.Errorf("%s: error %v, want only %v", op, err, want.sentinel)
		}
	}
}

// dumpIPVS is all that is there, in the language of the doubles' Dump.
func dumpIPVS(t *testing.T, door ipvsutil.IPVS) string {
	t.Helper()
	list, err := door.VirtualServers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var virtual, real strings.Builder
	for _, v := range list {
		virtual.WriteString(v.String() + "\n")
		reals, err := door.RealServers(t.Context(), v.Key)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range reals {
			real.WriteString("rs " + v.Key.String() + " " + r.RealServer.String() + "\n")
		}
	}
	return virtual.String() + real.String()
}

func createServer(v ipvsutil.VirtualServer) ipvsutil.Op {
	return ipvsutil.Op{Verb: ipvsutil.CreateVirtualServer, Server: v}
}

func updateServer(v ipvsutil.VirtualServer) ipvsutil.Op {
	return ipvsutil.Op{Verb: ipvsutil.UpdateVirtualServer, Server: v}
}

func deleteServer(v ipvsutil.VirtualServer) ipvsutil.Op {
	return ipvsutil.Op{Verb: ipvsutil.DeleteVirtualServer, Server: v}
}

func createReal(v ipvsutil.VirtualServer, r ipvsutil.RealServer) ipvsutil.Op {
	return ipvsutil.Op{Verb: ipvsutil.CreateRealServer, Server: v, Real: r}
}

func updateReal(v ipvsutil.VirtualServer, r ipvsutil.RealServer) ipvsutil.Op {
	return ipvsutil.Op{Verb: ipvsutil.UpdateRealServer, Server: v, Real: r}
}

func deleteReal(v ipvsutil.VirtualServer, r ipvsutil.RealServer) ipvsutil.Op {
	return ipvsutil.Op{Verb: ipvsutil.DeleteRealServer, Server: v, Real: r}
}

// server makes an address server with scheduler rr out of "10.96.0.1:80/tcp".
func server(text string) ipvsutil.VirtualServer {
	addr, name, _ := strings.Cut(text, "/")
	v := ipvsutil.VirtualServer{Key: ipvsutil.Key{Addr: netip.MustParseAddrPort(addr)}, Scheduler: "rr"}
	for _, p := range []ipvsutil.Protocol{ipvsutil.TCP, ipvsutil.UDP, ipvsutil.SCTP} {
		if p.String() == name {
			v.Key.Protocol = p
		}
	}
	return v
}

// marked is a mark server with scheduler rr.
func marked(mark uint32, ipv6 bool) ipvsutil.VirtualServer {
	return ipvsutil.VirtualServer{Key: ipvsutil.MarkKey(mark, ipv6), Scheduler: "rr"}
}

// with changes a copy.
func with(v ipvsutil.VirtualServer, change func(*ipvsutil.VirtualServer)) ipvsutil.VirtualServer {
	change(&v)
	return v
}

func real(text string, weight uint32) ipvsutil.RealServer {
	return ipvsutil.RealServer{Addr: netip.MustParseAddrPort(text), Weight: weight}
}

// numbered is the i-th server of many, sorted by i.
func numbered(i int) ipvsutil.VirtualServer {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 10<<24|96<<16+uint32(i))
	v := ipvsutil.VirtualServer{
		Key:       ipvsutil.Key{Addr: netip.AddrPortFrom(netip.AddrFrom4(b), 80), Protocol: ipvsutil.TCP},
		Scheduler: []string{"rr", "wlc"}[i%2],
	}
	if i%3 == 0 {
		v.Persistence = 60
	}
	return v
}

// numberedReal is the i-th real server of many, sorted by i.
func numberedReal(i int) ipvsutil.RealServer {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], 10<<24|200<<16+uint32(i))
	return ipvsutil.RealServer{Addr: netip.AddrPortFrom(netip.AddrFrom4(b), 8080), Weight: uint32(i % 3)}
}
