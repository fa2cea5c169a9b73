package ipvsutil

import (
	"errors"
	"io/fs"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"
)

func key(addr string) Key { return Key{Addr: netip.MustParseAddrPort(addr), Protocol: TCP} }

func TestOpCheck(t *testing.T) {
	four := VirtualServer{Key: key("10.96.0.1:80"), Scheduler: "rr"}
	with := func(change func(*VirtualServer)) VirtualServer {
		v := four
		change(&v)
		return v
	}
	real := func(addr string, weight uint32) RealServer {
		return RealServer{Addr: netip.MustParseAddrPort(addr), Weight: weight}
	}
	drained := func(addr string, weight, since uint32) RealServer {
		r := real(addr, weight)
		r.Drained = since
		return r
	}
	for name, c := range map[string]struct {
		op   Op
		want string // empty: fine
	}{
		"create":            {Op{Verb: CreateVirtualServer, Server: four}, ""},
		"sctp":              {Op{Verb: CreateVirtualServer, Server: with(func(v *VirtualServer) { v.Key.Protocol = SCTP })}, ""},
		"mark":              {Op{Verb: CreateVirtualServer, Server: VirtualServer{Key: MarkKey(7, true), Scheduler: "rr"}}, ""},
		"mark and port":     {Op{Verb: CreateVirtualServer, Server: with(func(v *VirtualServer) { v.Key.Mark = 7 })}, "mark server"},
		"no protocol":       {Op{Verb: DeleteVirtualServer, Server: with(func(v *VirtualServer) { v.Key.Protocol = 0 })}, "neither"},
		"icmp":              {Op{Verb: CreateVirtualServer, Server: with(func(v *VirtualServer) { v.Key.Protocol = 1 })}, "protocol"},
		"delete icmp":       {Op{Verb: DeleteVirtualServer, Server: with(func(v *VirtualServer) { v.Key.Protocol = 1 })}, ""},
		"port zero":         {Op{Verb: UpdateVirtualServer, Server: VirtualServer{Key: key("10.96.0.1:0"), Scheduler: "rr"}}, "port"},
		"delete port zero":  {Op{Verb: DeleteVirtualServer, Server: VirtualServer{Key: key("10.96.0.1:0")}}, ""},
		"unspecified":       {Op{Verb: CreateVirtualServer, Server: VirtualServer{Key: key("[::]:1"), Scheduler: "rr"}}, "unspecified"},
		"no address":        {Op{Verb: CreateVirtualServer, Server: VirtualServer{Scheduler: "rr"}}, "no address"},
		"mapped":            {Op{Verb: CreateVirtualServer, Server: VirtualServer{Key: key("[::ffff:10.0.0.1]:1"), Scheduler: "rr"}}, "IPv4"},
		"no scheduler":      {Op{Verb: CreateVirtualServer, Server: with(func(v *VirtualServer) { v.Scheduler = "" })}, "scheduler"},
		"long scheduler":    {Op{Verb: UpdateVirtualServer, Server: with(func(v *VirtualServer) { v.Scheduler = strings.Repeat("x", 16) })}, "scheduler"},
		"kernel's flag":     {Op{Verb: CreateVirtualServer, Server: with(func(v *VirtualServer) { v.Flags = 1 })}, "flags"},
		"31 days":           {Op{Verb: CreateVirtualServer, Server: with(func(v *VirtualServer) { v.Persistence = MaxPersistence })}, ""},
		"more than 31 days": {Op{Verb: CreateVirtualServer, Server: with(func(v *VirtualServer) { v.Persistence = MaxPersistence + 1 })}, "persistence"},
		"real":              {Op{Verb: CreateRealServer, Server: four, Real: real("10.244.0.1:80", 65535)}, ""},
		"drained":           {Op{Verb: UpdateRealServer, Server: four, Real: drained("10.244.0.1:80", 0, 1<<30)}, ""},
		"drained, weight":   {Op{Verb: UpdateRealServer, Server: four, Real: drained("10.244.0.1:80", 1, 1<<30)}, "drain"},
		"drained, 1970":     {Op{Verb: UpdateRealServer, Server: four, Real: drained("10.244.0.1:80", 0, 100)}, "drain"},
		"heavy":             {Op{Verb: UpdateRealServer, Server: four, Real: real("10.244.0.1:80", 65536)}, "weight"},
		"real port zero":    {Op{Verb: CreateRealServer, Server: four, Real: real("10.244.0.1:0", 1)}, "port"},
		"other family":      {Op{Verb: CreateRealServer, Server: four, Real: real("[fd00::1]:80", 1)}, "family"},
		"real mapped":       {Op{Verb: CreateRealServer, Server: four, Real: real("[::ffff:10.0.0.1]:80", 1)}, "IPv4"},
		"delete mapped":     {Op{Verb: DeleteVirtualServer, Server: VirtualServer{Key: key("[::ffff:10.0.0.1]:1")}}, ""},
		"real zone":         {Op{Verb: DeleteRealServer, Server: four, Real: real("[fe80::1%lo]:80", 1)}, "zone"},
		"mark, port zero":   {Op{Verb: CreateRealServer, Server: VirtualServer{Key: MarkKey(7, false)}, Real: real("10.244.0.1:0", 1)}, ""},
		"no verb":           {Op{Server: four}, "verb"},
	} {
		err := c.op.Check()
		if c.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want one about %q", name, err, c.want)
		}
		if !errors.Is(err, syscall.EINVAL) && !errors.Is(err, ErrUnknownScheduler) {
			t.Errorf("%s: %v has no known cause", name, err)
		}
	}
}

func TestRefusal(t *testing.T) {
	for _, c := range []struct {
		verb  Verb
		errno syscall.Errno
		want  error
	}{
		{CreateVirtualServer, syscall.EEXIST, fs.ErrExist},
		{CreateRealServer, syscall.EEXIST, fs.ErrExist},
		{UpdateVirtualServer, syscall.ESRCH, fs.ErrNotExist},
		{DeleteRealServer, syscall.ESRCH, fs.ErrNotExist},
		{DeleteRealServer, syscall.ENOENT, fs.ErrNotExist},
		{CreateVirtualServer, syscall.ENOENT, ErrUnknownScheduler},
		{UpdateVirtualServer, syscall.EPERM, fs.ErrPermission},
		{CreateRealServer, syscall.EINVAL, syscall.EINVAL},
	} {
		err := error(&OpError{Op: c.verb.String(), Object: "x", Err: c.verb.Refusal(c.errno)})
		var errno syscall.Errno
		if !errors.Is(err, c.want) || !errors.Is(err, c.errno) || !errors.As(err, &errno) || errno != c.errno {
			t.Errorf("%s %v: %v (%d), want %v", c.verb, c.errno, err, errno, c.want)
		}
	}
	// An unknown scheduler must not be taken for a missing server.
	if err := CreateVirtualServer.Refusal(syscall.ENOENT); errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is fs.ErrNotExist", err)
	}
}

// The time of a drain is read back out of the threshold that it was written to; a
// threshold of somebody else is none.
func TestDrainedAndThresholds(t *testing.T) {
	at := time.Date(2026, 11, 30, 6, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		weight, upper, lower uint32
		want                 RealServer
	}{
		"none":              {1, 0, 0, RealServer{Weight: 1}},
		"a drain":           {0, DrainedAt(at), 0, RealServer{Drained: uint32(at.Unix())}},
		"a weight":          {1, DrainedAt(at), 0, RealServer{Weight: 1, Foreign: true}},
		"a threshold":       {0, 1000, 0, RealServer{Foreign: true}},
		"a lower threshold": {0, DrainedAt(at), 10, RealServer{Foreign: true}},
	} {
		got := RealServer{Weight: c.weight}
		if got.Thresholds(c.upper, c.lower); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if DrainedAt(time.Unix(100, 0)) != 0 || DrainedAt(at.AddDate(100, 0, 0)) != 0 {
		t.Error("a time that cannot be told is told")
	}
}
