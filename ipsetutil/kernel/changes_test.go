package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// parse makes changes of bitmaps out of "+A +A -B", each with its index as port; "!"
// instead of the sign stands for a change that the set can't take.
func parse(text string) []ipsetutil.Change {
	var changes []ipsetutil.Change
	for i, word := range strings.Fields(text) {
		c := ipsetutil.Change{Delete: word[0] == '-', Member: ipsetutil.Member{Set: word[1:], Entry: ipsetutil.Entry{Port: uint16(i)}}}
		if word[0] == '!' {
			c.Member.Entry.Protocol = 6
		}
		changes = append(changes, c)
	}
	return changes
}

func lookup(name string) (ipsetutil.Set, error) {
	return ipsetutil.Set{Name: name, Type: ipsetutil.BitmapPort}, nil
}

// ready is a work whose changes are checked and split.
func ready(changes []ipsetutil.Change) (*work, []span) {
	w := &work{changes: changes}
	w.check(lookup)
	return w, w.split()
}

func show(spans []span) string {
	var b strings.Builder
	for _, s := range spans {
		sign := "+"
		if s.delete {
			sign = "-"
		}
		fmt.Fprintf(&b, "%s%s[%d:%d] ", sign, s.set.Name, s.from, s.to)
	}
	return strings.TrimSpace(b.String())
}

func TestSplit(t *testing.T) {
	for changes, want := range map[string]string{
		"":                  "",
		"+A":                "+A[0:1]",
		"+A +A -A -A +A":    "+A[0:2] -A[2:4] +A[4:5]",
		"+A +A +B +A":       "+A[0:2] +B[2:3] +A[3:4]",
		"+A !A +A !B +A +B": "+A[0:5] +B[5:6]",
		"!A !B":             "",
		"!A +A !A":          "+A[1:3]",
	} {
		if _, spans := ready(parse(changes)); show(spans) != want {
			t.Errorf("%q: %s, want %s", changes, show(spans), want)
		}
	}
}

// Messages go together until a set comes for the second time, or one is too long.
func TestBatch(t *testing.T) {
	for _, c := range []struct{ changes, now, rest string }{
		{"+A", "+A[0:1]", ""},
		{"+A +B -C +D", "+A[0:1] +B[1:2] -C[2:3] +D[3:4]", ""},
		{"+A -A +B", "+A[0:1]", "-A[1:2] +B[2:3]"},
		{"+A +B -A", "+A[0:1] +B[1:2]", "-A[2:3]"},
		{"+A +B +B +B +C", "+A[0:1] +B[1:4] +C[4:5]", ""},
		{"+A +B +B +B +B +C", "+A[0:1] +B[1:4]", "+B[4:5] +C[5:6]"},
	} {
		_, spans := ready(parse(c.changes))
		now, rest := batch(nil, spans, 3)
		if show(now) != c.now || show(rest) != c.rest {
			t.Errorf("%q: %s, then %s; want %s, then %s", c.changes, show(now), show(rest), c.now, c.rest)
		}
	}
}

// echo is a kernel error for the change with this index; -1 for the message as a whole.
func echo(errno unix.Errno, index int) error {
	a := appendCommand(nil, "S")
	a.U32(attrLine, uint32(index+1))
	return &netlink.Error{Errno: errno, Echo: a}
}

func TestRefused(t *testing.T) {
	for _, c := range []struct {
		name, changes string
		err           error
		rest          string // what is still to do
		failed        []int
	}{
		{"first", "+A +A +A", echo(codeExist, 0), "+A[1:3]", []int{0}},
		{"middle", "+A +A +A", echo(codeExist, 1), "+A[2:3]", []int{1}},
		{"last", "+A +A +A", echo(codeExist, 2), "", []int{2}},
		{"before invalid ones", "+A +A !A !A +A", echo(codeExist, 1), "+A[4:5]", []int{1, 2, 3}},
		{"only invalid ones left", "+A +A !A +B", echo(codeExist, 1), "", []int{1, 2}},
		{"all", "+A !A +A", echo(unix.ENOENT, -1), "", []int{0, 1, 2}},
		{"a foreign line", "+A +A", echo(codeExist, 7), "", []int{0, 1}},
		{"no echo", "+A +A", &netlink.Error{Errno: unix.EPERM}, "", []int{0, 1}},
		{"lost", "+A +A", netlink.ErrLost, "", []int{0, 1}},
	} {
		w, spans := ready(parse(c.changes))
		rest := show(slices.DeleteFunc([]span{w.refused(spans[0], c.err)}, func(s span) bool { return s.from == s.to }))
		if rest != c.rest {
			t.Errorf("%s: rest %q, want %q", c.name, rest, c.rest)
		}
		var failed []int
		for i, err := range w.errs {
			if err != nil {
				failed = append(failed, i)
			}
		}
		if !slices.Equal(failed, c.failed) {
			t.Errorf("%s: failed %v, want %v", c.name, failed, c.failed)
		}
	}
}

func TestKinds(t *testing.T) {
	refused := func(errno unix.Errno) error { return &netlink.Error{Errno: errno} }
	for _, c := range []struct {
		op   string
		typ  ipsetutil.Type
		err  error
		want []error
		text string
	}{
		{opAdd, "", refused(unix.ENOENT), []error{ipsetutil.ErrNoSet, fs.ErrNotExist, unix.ENOENT}, "add S: set does not exist"},
		{opAdd, "", refused(codeExist), []error{fs.ErrExist, Code(codeExist)}, "add S: file already exists"},
		{opDelete, "", refused(codeExist), []error{ipsetutil.ErrNoEntry, fs.ErrNotExist, Code(codeExist)}, "delete S: entry does not exist"},
		{opCreate, "", refused(unix.EEXIST), []error{ipsetutil.ErrMismatch}, "create S: set exists with other parameters"},
		{opDestroy, "", refused(codeBusy), []error{ipsetutil.ErrBusy, Code(codeBusy)}, "destroy S: set is in use by a rule"},
		{opAdd, ipsetutil.HashIP, refused(codeFull), []error{ipsetutil.ErrFull, Code(codeFull)}, "add S: set is full"},
		{opAdd, ipsetutil.BitmapPort, refused(codeFull), []error{ipsetutil.ErrInvalid}, "add S: invalid"},
		{opSwap, "", refused(codeNoName2), []error{ipsetutil.ErrNoSet}, "swap S: set does not exist"},
		{opSwap, "", refused(codeTypeMismatch), []error{ipsetutil.ErrMismatch}, "swap S: set exists with other parameters"},
		{
			opCreate, ipsetutil.HashIPPort, refused(codeFindType), []error{ipsetutil.ErrNoIPSet},
			"create S: the kernel has no set type hash:ip,port: module ip_set_hash_ipport is missing",
		},
		{opAdd, "", refused(codeInvalidCIDR), []error{Code(codeInvalidCIDR)}, "add S: invalid prefix length"},
		{opAdd, "", refused(4999), []error{Code(4999)}, "add S: ipset error 4999"},
		{opAdd, "", refused(unix.EPERM), []error{unix.EPERM, fs.ErrPermission}, "add S: operation not permitted"},
		{opAdd, "", netlink.ErrLost, []error{netlink.ErrLost}, "add S: " + netlink.ErrLost.Error()},
	} {
		err := fail(c.op, "S", c.typ, c.err)
		if err.Error() != c.text {
			t.Errorf("text %q, want %q", err, c.text)
		}
		for _, want := range c.want {
			if !errors.Is(err, want) {
				t.Errorf("%q is not %v", err, want)
			}
		}
	}
}

func TestOpenErrorNamesTheModule(t *testing.T) {
	for _, errno := range []unix.Errno{unix.EINVAL, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT} {
		err := openError(&netlink.Error{Errno: errno})
		if !errors.Is(err, ipsetutil.ErrNoIPSet) || !errors.Is(err, errno) || !strings.Contains(err.Error(), "ip_set") {
			t.Errorf("%v: %v", errno, err)
		}
	}
	if err := openError(&netlink.Error{Errno: unix.EPERM}); errors.Is(err, ipsetutil.ErrNoIPSet) || !errors.Is(err, unix.EPERM) {
		t.Errorf("EPERM: %v", err)
	}
}

func TestNearestRevision(t *testing.T) {
	for _, c := range []struct {
		typ             ipsetutil.Type
		low, high, want uint8
	}{
		{ipsetutil.HashIPPort, 0, 7, 5}, {ipsetutil.HashIPPort, 1, 4, 4}, {ipsetutil.HashIPPort, 6, 9, 6}, {"list:set", 2, 3, 2},
	} {
		if got := nearest(c.typ, c.low, c.high); got != c.want {
			t.Errorf("%s of %d to %d: %d, want %d", c.typ, c.low, c.high, got, c.want)
		}
	}
}
