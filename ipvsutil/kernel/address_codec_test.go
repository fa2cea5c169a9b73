package kernel

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

var testRoutes = ipvsutil.CaptureRoutes{Mark: 0x8000, Table: 0x4950, Priority: 98, Protocol: 150}

func TestAddressGolden(t *testing.T) {
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		t.Fatal("the golden bytes are those of a little-endian machine")
	}
	v4, v6 := netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00::a")
	long := "fd00000000000000000000000000000a"
	for name, c := range map[string]struct {
		got   netlink.Request
		flags uint16
		want  string
	}{
		"bind IPv4": {addressRequest(unix.RTM_NEWADDR, 5, v4), unix.NLM_F_CREATE | unix.NLM_F_EXCL,
			"02200000 05000000 08000200 0a60000a 08000100 0a60000a"},
		"bind IPv6": {addressRequest(unix.RTM_NEWADDR, 5, v6), unix.NLM_F_CREATE | unix.NLM_F_EXCL,
			"0a800000 05000000 14000200" + long + "14000100" + long + "08000800 02020000"},
		"unbind IPv6": {addressRequest(unix.RTM_DELADDR, 5, v6), 0,
			"0a800000 05000000 14000200" + long + "14000100" + long},
		"list bound": {addressDump(unix.AF_INET6, 5), 0, "0a000000 05000000"},
		"capture IPv4": {routeRequest(unix.RTM_NEWROUTE, testRoutes, v4), unix.NLM_F_CREATE | unix.NLM_F_EXCL,
			"02200000 0096fe02 00000000 08000100 0a60000a 08000400 01000000 08000f00 50490000"},
		"release IPv6": {routeRequest(unix.RTM_DELROUTE, testRoutes, v6), 0,
			"0a800000 00960002 00000000 14000100" + long + "08000400 01000000 08000f00 50490000"},
		"list captured": {routeDump(unix.AF_INET, testRoutes), 0, "02000000 00960002 00000000 08000f00 50490000"},
	} {
		if got, want := hex.EncodeToString(c.got.Body), strings.ReplaceAll(c.want, " ", ""); got != want || c.got.Flags != c.flags {
			t.Errorf("%s: flags %#x\n%s, want flags %#x\n%s", name, c.got.Flags, got, c.flags, want)
		}
	}
}

// What is written is read back as the same; what differs in one point is not ours.
func TestAddressRoundTrip(t *testing.T) {
	for _, text := range []string{"10.96.0.10", "fd00::a"} {
		addr := netip.MustParseAddr(text)
		family := familyOf(addr)
		body := addressRequest(unix.RTM_NEWADDR, 5, addr).Body
		if got, ok, err := parseAddress(body, family, 5); got != addr || !ok || err != nil {
			t.Errorf("address %s: %v %v %v", addr, got, ok, err)
		}
		if _, ok, _ := parseAddress(body, family, 6); ok {
			t.Errorf("%s of another device is taken", addr)
		}
		if _, ok, _ := parseAddress(body, family^8, 5); ok {
			t.Errorf("%s of another family is taken", addr)
		}
		body[1]--
		if _, ok, _ := parseAddress(body, family, 5); ok {
			t.Errorf("%s with a shorter prefix is taken", addr)
		}

		body = routeRequest(unix.RTM_NEWROUTE, testRoutes, addr).Body
		if got, ok, err := parseRoute(body, family, testRoutes); got != addr || !ok || err != nil {
			t.Errorf("route %s: %v %v %v", addr, got, ok, err)
		}
		for what, change := range map[string]func(b []byte){
			"family":   func(b []byte) { b[0] ^= 8 },
			"length":   func(b []byte) { b[1]-- },
			"protocol": func(b []byte) { b[5]++ },
			"kind":     func(b []byte) { b[7] = unix.RTN_UNICAST },
			"cloned":   func(b []byte) { binary.NativeEndian.PutUint32(b[8:], unix.RTM_F_CLONED) },
			"table":    func(b []byte) { b[len(b)-1]++ },
		} {
			other := append([]byte(nil), body...)
			change(other)
			if _, ok, _ := parseRoute(other, family, testRoutes); ok {
				t.Errorf("route %s with another %s is taken", addr, what)
			}
		}
	}
}

func TestAddressIgnoresLinkLocal(t *testing.T) {
	body := addressRequest(unix.RTM_NEWADDR, 5, netip.MustParseAddr("fe80::1")).Body
	if _, ok, err := parseAddress(body, unix.AF_INET6, 5); ok || err != nil {
		t.Errorf("link-local address taken: %v %v", ok, err)
	}
}

func TestAddressTruncated(t *testing.T) {
	if _, ok, err := parseAddress(make([]byte, 7), unix.AF_INET, 0); ok || !errors.Is(err, netlink.ErrTruncated) {
		t.Errorf("short address: %v %v", ok, err)
	}
	if _, ok, err := parseRoute(make([]byte, 11), unix.AF_INET, testRoutes); ok || !errors.Is(err, netlink.ErrTruncated) {
		t.Errorf("short route: %v %v", ok, err)
	}
}

func TestAddressErrors(t *testing.T) {
	v4, v6 := netip.MustParseAddr("10.96.0.10"), netip.MustParseAddr("fd00::a")
	for name, c := range map[string]struct {
		got  error
		want []error
		not  []error
	}{
		"bound already":    {bindError(v4, unix.EEXIST), []error{fs.ErrExist}, []error{fs.ErrNotExist}},
		"device went":      {bindError(v4, unix.ENODEV), []error{ipvsutil.ErrNoDevice, unix.ENODEV}, []error{fs.ErrNotExist}},
		"disabled":         {bindError(v6, unix.EACCES), []error{ipvsutil.ErrIPv6Disabled, unix.EACCES}, nil},
		"no IPv6 kernel":   {bindError(v6, unix.EOPNOTSUPP), []error{ipvsutil.ErrIPv6Disabled}, nil},
		"IPv4 is refused":  {bindError(v4, unix.EACCES), []error{unix.EACCES}, []error{ipvsutil.ErrIPv6Disabled}},
		"not bound":        {unbindError(v4, unix.EADDRNOTAVAIL), []error{fs.ErrNotExist, unix.EADDRNOTAVAIL}, nil},
		"unbind no device": {unbindError(v4, unix.ENODEV), []error{fs.ErrNotExist, ipvsutil.ErrNoDevice}, nil},
		"unbind refused":   {unbindError(v4, unix.EPERM), []error{unix.EPERM, fs.ErrPermission}, []error{fs.ErrNotExist}},
		"captured already": {addRouteError(v4, unix.EEXIST), []error{fs.ErrExist}, nil},
		"capture disabled": {addRouteError(v6, unix.EACCES), []error{ipvsutil.ErrIPv6Disabled}, nil},
		"lo is down":       {addRouteError(v4, unix.ENETDOWN), []error{unix.ENETDOWN}, nil},
		"not captured":     {deleteRouteError(v4, unix.ESRCH), []error{fs.ErrNotExist, unix.ESRCH}, nil},
		"release refused":  {deleteRouteError(v4, unix.EPERM), []error{unix.EPERM}, []error{fs.ErrNotExist}},
	} {
		for _, want := range c.want {
			if !errors.Is(c.got, want) {
				t.Errorf("%s: %v is not %v", name, c.got, want)
			}
		}
		for _, not := range c.not {
			if errors.Is(c.got, not) {
				t.Errorf("%s: %v is %v", name, c.got, not)
			}
		}
	}
}

// Only what was missing is tried again, and each error stays in its place.
func TestAddressRetryMissing(t *testing.T) {
	addrs := []netip.Addr{netip.MustParseAddr("10.96.0.1"), netip.MustParseAddr("10.96.0.2"), netip.MustParseAddr("10.96.0.3"), netip.MustParseAddr("10.96.0.4")}
	first := []error{nil, fs.ErrNotExist, unix.EPERM, fs.ErrNotExist}
	var tried []netip.Addr
	again := func(result ...error) func([]netip.Addr) []error {
		return func(a []netip.Addr) []error {
			tried = a
			return result
		}
	}
	got := retryMissing(addrs, slices.Clone(first), again(nil, unix.EBUSY))
	if want := []error{nil, nil, unix.EPERM, unix.EBUSY}; !slices.Equal(got, want) || !slices.Equal(tried, []netip.Addr{addrs[1], addrs[3]}) {
		t.Errorf("got %v, want %v; tried %v", got, want, tried)
	}
	if got := retryMissing(addrs, []error{nil, fs.ErrNotExist, nil, fs.ErrNotExist}, again()); got != nil {
		t.Errorf("all done in the end gives %v", got)
	}
	tried = nil
	if got := retryMissing(addrs, nil, again()); got != nil || tried != nil {
		t.Errorf("all done at once gives %v, tried %v", got, tried)
	}
}

func FuzzParseAddress(f *testing.F) {
	f.Add(addressRequest(unix.RTM_NEWADDR, 5, netip.MustParseAddr("10.96.0.10")).Body)
	f.Add(routeRequest(unix.RTM_NEWROUTE, testRoutes, netip.MustParseAddr("fd00::a")).Body)
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
			if addr, ok, err := parseAddress(body, family, 5); ok && (err != nil || ipvsutil.CheckAddress(addr) != nil) {
				t.Errorf("address %v, %v", addr, err)
			}
			if addr, ok, err := parseRoute(body, family, testRoutes); ok && (err != nil || ipvsutil.CheckAddress(addr) != nil) {
				t.Errorf("route %v, %v", addr, err)
			}
		}
	})
}
