package kernel

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipsetutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// Code is an error code of ipset that is no errno (4096 and above).
type Code uint32

// Error returns what the code means.
func (c Code) Error() string {
	if text, ok := codeTexts[c]; ok {
		return text
	}
	return fmt.Sprintf("ipset error %d", uint32(c))
}

var codeTexts = map[Code]string{
	codeProtocol:     "the kernel does not understand the request",
	codeFindType:     "the kernel lacks the set type",
	codeMaxSets:      "the kernel holds no more sets",
	codeBusy:         "set is in use",
	codeNoName2:      "second set does not exist",
	codeTypeMismatch: "the sets are of different types",
	codeExist:        "entry exists, or does not when deleted",
	codeInvalidCIDR:  "invalid prefix length",
	codeNetmask:      "invalid netmask",
	codeFamily:       "invalid family",
	codeTimeout:      "the set has no timeouts",
	codeReferenced:   "set is in use",
	codeAddressIPv4:  "IPv4 address expected",
	codeAddressIPv6:  "IPv6 address expected",
	codeCounter:      "the set has no counters",
	codeComment:      "the set has no comments",
	codeMarkMask:     "invalid mask of marks",
	codeSKBInfo:      "the set has no marks",
	codeFull:         "hash is full, or port out of range",
	codeNullEntry:    "an entry of zeros can't be stored",
	codeNoProtocol:   "invalid protocol",
	codeMissingProto: "protocol missing",
}

// refusal is a kernel error by its kind in ipsetutil, and as the kernel gave it.
type refusal struct {
	kind  error // what Error says
	cause error // an errno or a Code
}

func (r *refusal) Error() string   { return r.kind.Error() }
func (r *refusal) Unwrap() []error { return []error{r.kind, r.cause} }

// Operations, as errors name them.
const (
	opOpen    = "open"
	opCreate  = "create"
	opDestroy = "destroy"
	opSwap    = "swap"
	opList    = "list"
	opAdd     = "add"
	opDelete  = "delete"
	opTest    = "test"
)

// fail is the one place that makes errors of the kernel and of the socket into
// those of ipsetutil. What a code means depends on the operation and the set's type.
func fail(op, object string, typ ipsetutil.Type, err error) error {
	var e *netlink.Error
	if errors.As(err, &e) {
		err = e.Errno
		if e.Errno > 4096 {
			err = Code(e.Errno)
		}
		if kind := kindOf(op, typ, err); kind != nil {
			err = &refusal{kind: kind, cause: err}
		}
	}
	return &ipsetutil.OpError{Op: op, Object: object, Err: err}
}

// kindOf returns the sentinel, or nil for an error that is like no other.
func kindOf(op string, typ ipsetutil.Type, cause error) error {
	switch cause {
	case unix.ENOENT, Code(codeNoName2): //nolint:errorlint // what the kernel said, not wrapped yet
		return ipsetutil.ErrNoSet
	case unix.EEXIST:
		if op == opCreate {
			return ipsetutil.ErrMismatch
		}
	case Code(codeTypeMismatch):
		return ipsetutil.ErrMismatch
	case Code(codeBusy), Code(codeReferenced):
		return ipsetutil.ErrBusy
	case Code(codeExist):
		if op == opDelete {
			return ipsetutil.ErrNoEntry
		}
		return fs.ErrExist
	case Code(codeFull):
		if typ == ipsetutil.BitmapPort {
			return ipsetutil.ErrInvalid
		}
		return ipsetutil.ErrFull
	case Code(codeFindType):
		return noType(typ)
	}
	return nil
}

// noType is an ErrNoIPSet that names the module.
func noType(typ ipsetutil.Type) error {
	for _, t := range types {
		if t.typ == typ {
			return missingModule("the kernel has no set type " + string(typ) + ": module " + t.module + " is missing")
		}
	}
	return missingModule("the kernel has no set type " + string(typ))
}

// missingModule is an ErrNoIPSet with a text of its own.
type missingModule string

func (m missingModule) Error() string        { return string(m) }
func (m missingModule) Is(target error) bool { return target == ipsetutil.ErrNoIPSet }
