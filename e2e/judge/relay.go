package judge

import (
	"errors"
	"fmt"
	"io"
	"net"

	"kube-ipvs-proxy/e2e/testbed"
)

// relayAddr is where a node finds the API server, on its own loopback.
const relayAddr = "127.0.0.1:6443"

// relay carries connections from a node's loopback to an API server that only this
// process reaches: the listening socket is the node's, the other one is ours.
type relay struct {
	listener net.Listener
	target   string
}

// newRelay listens on a host for connections to an address that we reach.
func newRelay(h *testbed.Host, target string) (*relay, error) {
	r := &relay{target: target}
	err := h.Do(func() (err error) {
		r.listener, err = net.Listen("tcp4", relayAddr)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: relay to the API server: %w", h.Name(), err)
	}
	go r.accept()
	return r, nil
}

func (r *relay) accept() {
	for {
		from, err := r.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			go r.carry(from)
		}
	}
}

// carry copies both ways until either side ends: clients of an API server know how to
// begin anew.
func (r *relay) carry(from net.Conn) {
	defer func() { _ = from.Close() }()
	to, err := net.Dial("tcp4", r.target)
	if err != nil {
		return // the client sees its connection close and tries again
	}
	defer func() { _ = to.Close() }()
	ends := make(chan struct{}, 2)
	go func() { _, _ = io.Copy(to, from); ends <- struct{}{} }()
	go func() { _, _ = io.Copy(from, to); ends <- struct{}{} }()
	<-ends
}

func (r *relay) close() error { return r.listener.Close() }
