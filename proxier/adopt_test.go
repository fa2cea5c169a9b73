package proxier

import (
	"context"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"kube-ipvs-proxy/proxier/reconcile"
)

// unread is a source that never has its first complete read, and a host that never
// changes: the loop does no round. What is not here is not called.
type unread struct {
	Source
	Host
}

func (unread) Changed() <-chan struct{}     { return nil }
func (unread) Damaged() <-chan struct{}     { return nil }
func (unread) Unbound() <-chan []netip.Addr { return nil }
func (unread) Synced() bool                 { return false }

// TestAdopt: a running loop takes over, in its own goroutine, what changed.
func TestAdopt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(Config{MinSyncPeriod: time.Hour}, unread{}, unread{},
			func([]netip.Addr, []netip.Addr) []netip.Addr { return nil }, reconcile.Doors{}, slog.New(slog.DiscardHandler))
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- p.Run(ctx) }()
		called := 0
		p.Adopt(ctx, Adoption{MinSyncPeriod: time.Second, Rules: func() { called++ }})
		p.Adopt(ctx, Adoption{MinSyncPeriod: 2 * time.Second})
		synctest.Wait()
		if called != 1 || p.config.MinSyncPeriod != 2*time.Second {
			t.Errorf("rules changed %d times, least period %v", called, p.config.MinSyncPeriod)
		}
		cancel()
		<-ended
		p.Adopt(ctx, Adoption{}) // nobody takes it, and it returns
	})
}
