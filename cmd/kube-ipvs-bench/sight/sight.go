// Package sight reads from the kernel whether a world is programmed there, in the ways
// of IPVS proxies and of kube-proxy's modes iptables and nftables. It asks no proxy.
//
// A look that is repeated is cheap and asks for what comes last; only when that is
// there, all is read.
package sight

import (
	"context"

	"kube-ipvs-proxy/cmd/kube-ipvs-bench/world"
)

// Sight looks at one network namespace: that of the thread which opened it.
type Sight interface {
	// Seems tells whether all of the world seems to be there; how says what is.
	Seems(ctx context.Context, w *world.World) (there bool, how string, err error)
	// Verify reads everything, and tells the first thing that is wrong.
	Verify(ctx context.Context, w *world.World) error
	// Serves tells whether a Service is there with exactly its endpoints.
	Serves(ctx context.Context, w *world.World, s world.Service) (bool, error)
	// Gone tells whether nothing serves the Service any more.
	Gone(ctx context.Context, w *world.World, s world.Service) (bool, error)
	// Close closes sockets.
	Close()
}
