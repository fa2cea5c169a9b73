package reserve

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Key is the setting, below /proc/sys. It counts for IPv4 and IPv6.
const Key = "net/ipv4/ip_local_reserved_ports"

// maxText bounds the text of the setting: 65,536 ports of five digits and a comma. The
// kernel gives all of it to the first read or cuts it short, so that a buffer that grows
// with what was read would miss the rest.
const maxText = 6 << 16

// Read returns the ports that the node leaves out of its own connections. root is
// that of the settings, such as /proc/sys.
func Read(root string) (map[uint16]bool, error) {
	f, err := os.Open(filepath.Join(root, Key))
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	text := make([]byte, maxText)
	n, err := f.Read(text)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return parse(string(text[:n]))
}

// write replaces the setting. It never creates the file: one that is missing is an error.
func write(root string, ports map[uint16]bool) error {
	f, err := os.OpenFile(filepath.Join(root, Key), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(Format(ports) + "\n")
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// parse reads a list such as "8080,30000-32767".
func parse(text string) (map[uint16]bool, error) {
	ports := map[uint16]bool{}
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		if part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err := strconv.ParseUint(first, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("reserved ports %q: %w", part, err)
		}
		to, err := strconv.ParseUint(last, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("reserved ports %q: %w", part, err)
		}
		for p := from; p <= to; p++ {
			ports[uint16(p)] = true
		}
	}
	return ports, nil
}

// Format is the kernel's text of a set of ports: sorted, neighbours as a range.
func Format(ports map[uint16]bool) string {
	list := sorted(ports)
	var b strings.Builder
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n] == list[0]+uint16(n) {
			n++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, list[0])
		if n > 1 {
			fmt.Fprintf(&b, "-%d", list[n-1])
		}
		list = list[n:]
	}
	return b.String()
}

func sorted(ports map[uint16]bool) []uint16 {
	list := make([]uint16, 0, len(ports))
	for p, in := range ports {
		if in {
			list = append(list, p)
		}
	}
	slices.Sort(list)
	return list
}
