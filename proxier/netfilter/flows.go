package netfilter

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
	"kube-ipvs-proxy/ipvsutil/netlink"
)

// deleteChunk is how many stale flows are collected before they are deleted, so that
// memory stays the same however many there are.
const deleteChunk = 1024

// dumps is how often a dump that was interrupted by a change is made.
const dumps = 3

// DeleteFlows deletes the conntrack flows whose original destination is a frontend
// and whose answers come from the real server that left it, or from anywhere for a
// zero Real. It returns how many there were. One dump is made for each family and
// protocol, which the kernel filters since 5.8. Flows of other zones are not ours.
// It needs CAP_NET_ADMIN and the kernel module nf_conntrack_netlink.
func (r *Rules) DeleteFlows(ctx context.Context, stale []ipvsutil.StaleFlow) (int, error) {
	searches := map[searchKey]search{}
	for _, s := range stale {
		key := searchKey{s.Frontend.IsIPv6(), s.Frontend.Protocol}
		if searches[key] == nil {
			searches[key] = search{}
		}
		searches[key].add(s)
	}
	deleted := 0
	var errs []error
	for key, s := range searches {
		n, err := deleteFlows(ctx, key, s)
		deleted += n
		if err != nil {
			errs = append(errs, fmt.Errorf("stale %s flows of %s: %w", key.protocol, familyName(key.ipv6), err))
		}
	}
	return deleted, errors.Join(errs...)
}

// searchKey is what one dump can be filtered by.
type searchKey struct {
	ipv6     bool
	protocol ipvsutil.Protocol
}

// search maps frontends to the real servers that left; nil: all of them.
type search map[netip.AddrPort]map[netip.AddrPort]bool

func (s search) add(flow ipvsutil.StaleFlow) {
	frontend := flow.Frontend.Addr
	reals, known := s[frontend]
	switch {
	case !flow.Real.IsValid():
		s[frontend] = nil
	case !known:
		s[frontend] = map[netip.AddrPort]bool{flow.Real: true}
	case reals != nil:
		reals[flow.Real] = true
	}
}

// matches reports whether a flow is to be deleted.
func (s search) matches(f flow) bool {
	reals, known := s[f.frontend]
	return known && (reals == nil || reals[f.real])
}

// deleteFlows goes through the table once, or again when it changed meanwhile.
func deleteFlows(ctx context.Context, key searchKey, s search) (deleted int, err error) {
	reader, err := netlink.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, err
	}
	defer func() { _ = reader.Close() }()
	writer, err := netlink.Open(unix.NETLINK_NETFILTER)
	if err != nil {
		return 0, err
	}
	defer func() { _ = writer.Close() }()
	var chunk []netlink.Request
	flush := func() error {
		n, err := deleteChunkOf(ctx, writer, chunk)
		deleted += n
		chunk = chunk[:0]
		return err
	}
	for range dumps {
		err = reader.Dump(ctx, dumpRequest(key, s), func(body []byte) error {
			f, ok, err := parseFlow(body)
			if err != nil || !ok || f.protocol != key.protocol || !s.matches(f) {
				return err
			}
			if chunk = append(chunk, f.deletion(key.ipv6)); len(chunk) < deleteChunk {
				return nil
			}
			return flush()
		})
		if err = errors.Join(err, flush()); !errors.Is(err, netlink.ErrInterrupted) {
			break
		}
	}
	return deleted, err
}

// deleteChunkOf sends the deletions. A flow that is gone already is no error.
func deleteChunkOf(ctx context.Context, writer *netlink.Socket, chunk []netlink.Request) (deleted int, err error) {
	errs := writer.Execute(ctx, chunk)
	deleted = len(chunk)
	for _, e := range errs {
		if e == nil {
			continue
		}
		deleted--
		if err == nil && !errors.Is(e, syscall.ENOENT) {
			err = e
		}
	}
	return deleted, err
}
