package netfilter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil/netlink"
)

// settle is how long changes are gathered before they are told: a restore by someone
// else is hundreds of messages.
const settle = 100 * time.Millisecond

// Messages of nf_tables that change chains or rules (include/uapi/linux/netfilter/
// nf_tables.h). The first attribute of each is the table's name.
var ruleMessages = []uint16{
	unix.NFT_MSG_DELTABLE, unix.NFT_MSG_NEWCHAIN, unix.NFT_MSG_DELCHAIN, unix.NFT_MSG_NEWRULE, unix.NFT_MSG_DELRULE,
}

// Watch tells that somebody, perhaps Ensure itself, has changed chains or rules of
// the tables that hold ours; ask Check then. Changes that come close together are
// told once. The nf_tables back end tells at once. Of the legacy one the numbers and
// sizes of the rules are looked at each few seconds: a rule that was replaced by one of
// its size is not told, and Check has to be asked from time to time. The channel is
// closed when ctx ends or the subscription breaks. Watch starts no process.
func (r *Rules) Watch(ctx context.Context) (<-chan struct{}, error) {
	return r.watch(ctx, legacyPeriod)
}

func (r *Rules) watch(ctx context.Context, period time.Duration) (<-chan struct{}, error) {
	socket, err := nl.Subscribe(unix.NETLINK_NETFILTER, unix.NFNLGRP_NFTABLES)
	if err != nil {
		return nil, fmt.Errorf("watch nf_tables: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	changes := make(chan struct{}, 1)
	tell := func() {
		select {
		case changes <- struct{}{}:
		default: // told already, and not yet heard
		}
	}
	var watchers sync.WaitGroup
	watchers.Go(func() {
		defer cancel()
		watchNFT(ctx, socket, tell)
	})
	if legacy := r.legacy(); len(legacy) > 0 {
		watchers.Go(func() { watchLegacy(ctx, legacy, period, tell) })
	}
	go func() {
		watchers.Wait()
		close(changes)
	}()
	return changes, nil
}

// legacy are the families with legacy tables, ours or not.
func (r *Rules) legacy() []*legacyFamily {
	var found []*legacyFamily
	for _, f := range r.families {
		if l := openLegacy(f.want.IPv6); l != nil {
			found = append(found, l)
		}
	}
	return found
}

// watchNFT calls tell when nf_tables changed, until ctx ends or the socket fails.
func watchNFT(ctx context.Context, socket *nl.NetlinkSocket, tell func()) {
	defer socket.Close()
	stop := context.AfterFunc(ctx, socket.Close)
	defer stop()
	for {
		changed, err := receiveChange(socket)
		if err != nil {
			return
		}
		if !changed {
			continue
		}
		select {
		case <-time.After(settle):
		case <-ctx.Done():
			return
		}
		tell()
	}
}

// receiveChange waits for messages and reports whether one is about our tables. What
// the kernel had to drop may have been.
func receiveChange(socket *nl.NetlinkSocket) (bool, error) {
	messages, _, err := socket.Receive()
	switch {
	case errors.Is(err, unix.ENOBUFS):
		return true, nil
	case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		return false, nil
	case err != nil:
		return false, err
	}
	return slices.ContainsFunc(messages, changesRules), nil
}

// changesRules reports whether a message changes a table that iptables uses.
func changesRules(m syscall.NetlinkMessage) bool {
	if m.Header.Type>>8 != unix.NFNL_SUBSYS_NFTABLES || !slices.Contains(ruleMessages, m.Header.Type&0xff) || len(m.Data) < headerLength {
		return false
	}
	if family := m.Data[0]; family != unix.NFPROTO_IPV4 && family != unix.NFPROTO_IPV6 {
		return false
	}
	for a, err := range netlink.Parse(m.Data[headerLength:]) {
		if err != nil {
			return false
		}
		if a.Type == 1 {
			return slices.Contains([]string{tableMangle, tableNAT, tableFilter}, a.String())
		}
	}
	return false
}
