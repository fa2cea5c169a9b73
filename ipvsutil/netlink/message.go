package netlink

import (
	"encoding/binary"
	"iter"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	headerSize = unix.SizeofNlMsghdr
	// maxMessage bounds one request: a nested attribute ends at 64 KiB, and the
	// echo of the whole must fit into the receive buffer.
	maxMessage = 80 << 10
	// maxBatch and maxBatchBytes bound a batch. More messages bring no speed, and
	// at these sizes even a failure of every one cannot overflow the default
	// receive buffer of the kernel.
	maxBatch      = 128
	maxBatchBytes = 64 << 10
)

// Request is one message without its header.
type Request struct {
	Type  uint16 // message type, for generic netlink the family
	Flags uint16 // beyond NLM_F_REQUEST, NLM_F_ACK and NLM_F_DUMP, which the socket sets
	Body  []byte
}

// appendMessage appends the request with its header, padded to four bytes.
func appendMessage(b []byte, r Request, flags uint16, sequence uint32) []byte {
	order := binary.NativeEndian
	b = order.AppendUint32(b, uint32(headerSize+len(r.Body)))
	b = order.AppendUint16(b, r.Type)
	b = order.AppendUint16(b, r.Flags&^unix.NLM_F_ACK|flags|unix.NLM_F_REQUEST)
	b = order.AppendUint32(b, sequence)
	b = order.AppendUint32(b, 0) // the kernel knows the port
	b = append(b, r.Body...)
	return pad(b)
}

// pad appends zero bytes up to a multiple of four.
func pad(b []byte) []byte {
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// message is one message of a reply.
type message struct {
	kind, flags uint16
	sequence    uint32
	body        []byte
}

// messages yields the messages of a datagram. A message that says it is longer
// than the datagram, or shorter than its header, gives ErrTruncated and ends it.
func messages(b []byte) iter.Seq2[message, error] {
	return func(yield func(message, error) bool) {
		for len(b) > 0 {
			if len(b) < headerSize {
				yield(message{}, ErrTruncated)
				return
			}
			order := binary.NativeEndian
			n := order.Uint32(b)
			if n < headerSize || uint64(n) > uint64(len(b)) {
				yield(message{}, ErrTruncated)
				return
			}
			m := message{
				kind: order.Uint16(b[4:]), flags: order.Uint16(b[6:]),
				sequence: order.Uint32(b[8:]), body: b[headerSize:n],
			}
			if !yield(m, nil) {
				return
			}
			b = b[min(len(b), (int(n)+3)&^3):]
		}
	}
}

// answer reads the code of an NLMSG_ERROR or NLMSG_DONE message: nil for zero, an
// *Error for an errno. The echo is copied.
func answer(m message) error {
	if len(m.body) < 4 {
		if m.kind == unix.NLMSG_DONE {
			return nil // older kernels end some dumps without a code
		}
		return ErrTruncated
	}
	code := int32(binary.NativeEndian.Uint32(m.body))
	if code == 0 || (m.kind == unix.NLMSG_DONE && code > 0) {
		return nil // a positive code of DONE is a length, not an errno
	}
	if code < 0 {
		code = -code
	}
	e := &Error{Errno: syscall.Errno(code)}
	if m.kind == unix.NLMSG_ERROR && len(m.body) > 4+headerSize {
		e.Echo = append([]byte(nil), m.body[4+headerSize:]...)
	}
	return e
}
