// Package relay carries connections of those who cannot reach a server, as from a network
// namespace without a way out, to that server.
package relay

import (
	"errors"
	"io"
	"net"
)

// Serve carries each connection that the listener accepts to the target, until the listener
// is closed. The target is reached from the namespace of who calls.
func Serve(l net.Listener, target string) {
	for {
		from, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			go carry(from, target)
		}
	}
}

// carry copies both ways until either side ends: clients of an API server know how to
// begin anew.
func carry(from net.Conn, target string) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp", target)
	if err != nil {
		return // the client sees its connection close and tries again
	}
	defer func() { _ = to.Close() }()
	ends := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(to, from); ends <- struct{}{} }()
	go func() { _, _ = io.Copy(from, to); ends <- struct{}{} }()
	<-ends
}
