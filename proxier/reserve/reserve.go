// Package reserve keeps NodePorts out of the ports that the node takes for its own
// connections (net.ipv4.ip_local_reserved_ports): an answer to a connection that leaves
// from a NodePort would be taken for a request to the Service
// (kubernetes/kubernetes#111682).
//
// What others have in the setting stays. What is ours is remembered in an ipset of the
// same network namespace: it lives exactly as long as the setting, and a restart or a
// cleanup finds it there.
package reserve

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"kube-ipvs-proxy/ipsetutil"
)

// Journal is the name of the set that remembers which ports are ours. No rule uses it.
const Journal = "KIPVS-RESERVED-PORTS"

// Ports is the reservation of one network namespace. It is for one goroutine.
type Ports struct {
	root string
	sets ipsetutil.Sets
	ours map[uint16]bool
}

// New returns the reservation below a root of settings, such as /proc/sys. It reads and
// writes nothing yet.
func New(root string, sets ipsetutil.Sets) *Ports {
	return &Ports{root: root, sets: sets, ours: map[uint16]bool{}}
}

// Reserve has exactly these ports reserved besides those of others, and tells whether
// it had to write. The journal knows a port before the setting does, and after it: an
// error or the end of the process in between loses no port of ours.
func (p *Ports) Reserve(ctx context.Context, want map[uint16]bool) (changed bool, err error) {
	c, err := p.compare(ctx, want)
	if err != nil {
		return false, err
	}
	if err := p.record(ctx, c); err != nil {
		return false, err
	}
	if changed = !maps.Equal(c.have, c.next); changed {
		if err := write(p.root, c.next); err != nil {
			return false, err
		}
	}
	return changed, p.forget(ctx, want)
}

// Preview returns what Reserve would write; nothing when it would not.
func (p *Ports) Preview(ctx context.Context, want map[uint16]bool) (text string, changed bool, err error) {
	c, err := p.compare(ctx, want)
	return Format(c.next), !maps.Equal(c.have, c.next), err
}

// comparison is the setting as it is and as it should be, and the journal as it is.
type comparison struct {
	have, next, journal map[uint16]bool
	there               bool // there is a journal
}

// compare reads, and learns which ports are, or are about to become, ours.
func (p *Ports) compare(ctx context.Context, want map[uint16]bool) (c comparison, err error) {
	if c.journal, c.there, err = p.journal(ctx); err != nil {
		return comparison{}, err
	}
	if c.have, err = Read(p.root); err != nil {
		return comparison{}, err
	}
	maps.Copy(p.ours, c.journal)
	c.next = maps.Clone(c.have)
	for port := range p.ours {
		if !want[port] {
			delete(c.next, port)
		}
	}
	for port := range want {
		if !c.have[port] {
			p.ours[port] = true
			c.next[port] = true
		}
	}
	return c, nil
}

// Ours are the ports that the journal knows, sorted.
func (p *Ports) Ours(ctx context.Context) ([]uint16, error) {
	journal, _, err := p.journal(ctx)
	return sorted(journal), err
}

// Release takes all that is ours out of the setting, and then the journal.
func (p *Ports) Release(ctx context.Context) error {
	if _, err := p.Reserve(ctx, nil); err != nil {
		return err
	}
	return p.sets.Destroy(ctx, Journal)
}

func (p *Ports) journal(ctx context.Context) (ports map[uint16]bool, there bool, err error) {
	entries, err := p.sets.Members(ctx, Journal)
	if errors.Is(err, ipsetutil.ErrNoSet) {
		return map[uint16]bool{}, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	ports = make(map[uint16]bool, len(entries))
	for e := range entries {
		ports[e.Port] = true
	}
	return ports, true, nil
}

// record puts into the journal what is ours and not there: new ports, and those that
// somebody flushed.
func (p *Ports) record(ctx context.Context, c comparison) error {
	var add []ipsetutil.Change
	for _, port := range sorted(p.ours) {
		if !c.journal[port] {
			add = append(add, change(port, false))
		}
	}
	if len(add) == 0 {
		return nil
	}
	if !c.there {
		if err := p.sets.Create(ctx, ipsetutil.Set{Name: Journal, Type: ipsetutil.BitmapPort}); err != nil {
			return err
		}
	}
	return errors.Join(p.sets.Do(ctx, add)...)
}

// forget takes out of the journal what is no longer wanted.
func (p *Ports) forget(ctx context.Context, want map[uint16]bool) error {
	var gone []ipsetutil.Change
	for _, port := range sorted(p.ours) {
		if !want[port] {
			gone = append(gone, change(port, true))
		}
	}
	if len(gone) == 0 {
		return nil
	}
	if err := errors.Join(p.sets.Do(ctx, gone)...); err != nil {
		return fmt.Errorf("journal of reserved ports: %w", err)
	}
	for _, c := range gone {
		delete(p.ours, c.Member.Entry.Port)
	}
	return nil
}

func change(port uint16, del bool) ipsetutil.Change {
	return ipsetutil.Change{Delete: del, Member: ipsetutil.Member{Set: Journal, Entry: ipsetutil.Entry{Port: port}}}
}
