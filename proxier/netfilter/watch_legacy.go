package netfilter

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// legacyPeriod is the time between two looks at the legacy tables, of which the kernel
// tells nothing: a look is a few system calls and starts no process.
const legacyPeriod = 5 * time.Second

// tableInfo is struct ipt_getinfo of include/uapi/linux/netfilter_ipv4/ip_tables.h, which
// is that of IPv6 too: what the kernel says of a table without its rules.
type tableInfo struct {
	Name       [32]byte
	ValidHooks uint32
	HookEntry  [5]uint32
	Underflow  [5]uint32
	Entries    uint32
	Size       uint32
}

// getInfo is IPT_SO_GET_INFO and IP6T_SO_GET_INFO.
const getInfo = 64

// legacyFamily looks at the legacy tables of one family.
type legacyFamily struct {
	socket, level int
	// names lists the tables that there are. Only these are asked for: the kernel would
	// load the module of another.
	names *os.File
	seen  map[string]tableInfo
}

// openLegacy opens what is needed, in the namespace of this thread; nil without legacy
// tables.
func openLegacy(ipv6 bool) *legacyFamily {
	domain, level, file := unix.AF_INET, unix.SOL_IP, "ip_tables_names"
	if ipv6 {
		domain, level, file = unix.AF_INET6, unix.SOL_IPV6, "ip6_tables_names"
	}
	names, err := os.Open("/proc/thread-self/net/" + file)
	if err != nil {
		return nil
	}
	socket, err := unix.Socket(domain, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW)
	if err != nil {
		_ = names.Close()
		return nil
	}
	f := &legacyFamily{socket: socket, level: level, names: names, seen: map[string]tableInfo{}}
	f.changed()
	return f
}

func (f *legacyFamily) close() error { return errors.Join(unix.Close(f.socket), f.names.Close()) }

// changed tells whether a table that holds ours came, went, or has another number or
// size of rules than at the last look.
func (f *legacyFamily) changed() bool {
	tables, err := f.tables()
	if err != nil {
		return false
	}
	now := map[string]tableInfo{}
	for _, name := range tables {
		info, err := f.info(name)
		if err != nil {
			return false // the next look may say more
		}
		now[name] = info
	}
	changed := len(now) != len(f.seen)
	for name, info := range now {
		changed = changed || f.seen[name] != info
	}
	f.seen = now
	return changed
}

// tables are those there that may hold rules of ours.
func (f *legacyFamily) tables() ([]string, error) {
	if _, err := f.names.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(f.names)
	return slices.DeleteFunc(strings.Fields(string(text)), func(name string) bool {
		return !slices.Contains([]string{tableMangle, tableNAT, tableFilter}, name)
	}), err
}

// info asks for one table.
func (f *legacyFamily) info(name string) (tableInfo, error) {
	var info tableInfo
	copy(info.Name[:], name)
	err := f.ask(getInfo, unsafe.Pointer(&info), int(unsafe.Sizeof(info)))
	return info, err
}

// ask has the kernel answer in the place of the question.
func (f *legacyFamily) ask(what uintptr, question unsafe.Pointer, size int) error {
	length := uint32(size)
	_, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(f.socket), uintptr(f.level), what,
		uintptr(question), uintptr(unsafe.Pointer(&length)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// watchLegacy looks at the legacy tables of the families once in a period, and calls tell
// when they changed, until ctx ends.
func watchLegacy(ctx context.Context, families []*legacyFamily, period time.Duration, tell func()) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			for _, f := range families {
				_ = f.close()
			}
			return
		case <-tick.C:
		}
		changed := false
		for _, f := range families {
			changed = f.changed() || changed
		}
		if changed {
			tell()
		}
	}
}
