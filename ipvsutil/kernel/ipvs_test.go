package kernel

import (
	"errors"
	"net/netip"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// A kernel without the family must not look like one in which everything succeeds
// (moby/ipvs#27).
func TestIPVSOpenWithoutFamily(t *testing.T) {
	if k, err := open(t.Context(), "no-such-family"); !errors.Is(err, ipvsutil.ErrNoIPVS) {
		t.Errorf("door %v, error %v", k, err)
	}
}

func TestIPVSErrorMeans(t *testing.T) {
	op := ipvsutil.Op{
		Verb:   ipvsutil.DeleteRealServer,
		Server: ipvsutil.VirtualServer{Key: ipvsKey("10.96.0.1:80", ipvsutil.TCP)},
		Real:   ipvsutil.RealServer{Addr: netip.MustParseAddrPort("10.244.1.2:8080")},
	}
	err := opError(op, &netlink.Error{Errno: unix.ESRCH})
	if want := "delete real server 10.96.0.1:80/tcp -> 10.244.1.2:8080 w0: virtual server does not exist"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
	err = opError(op, netlink.ErrLost)
	if !errors.Is(err, ipvsutil.ErrUnknownOutcome) || !errors.Is(err, netlink.ErrLost) {
		t.Errorf("lost: %v", err)
	}
	err = listError("virtual servers", &netlink.Error{Errno: unix.EPERM})
	var errno syscall.Errno
	if !errors.As(err, &errno) || errno != syscall.EPERM {
		t.Errorf("list: %v", err)
	}
}
