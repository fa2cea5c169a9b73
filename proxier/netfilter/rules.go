package netfilter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// attempts is how often Ensure writes a family before it gives up: another program
// may change the tables between listing and writing.
const attempts = 3

// Rules is the door to the static rules of one network namespace. It is for one
// goroutine at a time. It starts programs only when it is called: a listing a
// family for Check, and for Ensure, when something is wrong, a restore and a second
// listing.
type Rules struct {
	families []*family
	notes    []string
}

// family is one address family's part.
type family struct {
	programs programs
	want     Ruleset
	// seen is our own part of the listing when it was last known to be right. It
	// tells a rule that was replaced, which the stamp and the counts do not. Nil
	// before the first look.
	seen map[string]string
	// written: Ensure wrote the rules. What is printed then is right, however it is
	// printed; before that, it is compared with the text that would be written.
	written bool
	// listed is what Others.Serving read at a time, for the next look; nil: nothing.
	listed   listing
	listedAt time.Time
}

// list reads the family's rules, unless that was done just now.
func (f *family) list(ctx context.Context) (listing, error) {
	l := f.listed
	f.listed = nil
	if l != nil && time.Since(f.listedAt) < justNow {
		return l, nil
	}
	return f.programs.list(ctx)
}

// justNow is how old a listing may be that is used once more: reading them again is a
// good part of a start. Who changes rules meanwhile is heard of.
const justNow = 500 * time.Millisecond

// New finds the programs for the flags and makes sure that they work. It writes
// nothing. IPv6 that the host does not have is left out, and Notes says so; then
// ErrNoIPTables and all other errors are about the families that remain.
func New(ctx context.Context, flags Flags) (*Rules, error) {
	if err := flags.Validate(); err != nil {
		return nil, fmt.Errorf("netfilter rules: %w", err)
	}
	r := &Rules{}
	if flags.IPv4 {
		if err := r.add(ctx, flags, false); err != nil {
			return nil, err
		}
	}
	if flags.IPv6 {
		err := ipv6Off()
		if err == nil {
			err = r.add(ctx, flags, true)
		}
		if err != nil && (!flags.IPv4 || ctx.Err() != nil) {
			return nil, err
		}
		if err != nil {
			r.notes = append(r.notes, fmt.Sprintf("no IPv6 rules: %v", err))
		}
	}
	return r, nil
}

// add finds a family's programs and reads its nat table, which shows whether the
// kernel has it.
func (r *Rules) add(ctx context.Context, flags Flags, ipv6 bool) error {
	p, err := findPrograms(flags.Backend, ipv6)
	if err != nil {
		return err
	}
	if _, _, err := run(ctx, "", p.iptables, "-w", fmt.Sprint(lockWait), "-t", tableNAT, "-S", "POSTROUTING"); err != nil {
		return fmt.Errorf("%s nat table: %w", familyName(ipv6), err)
	}
	r.families = append(r.families, &family{programs: p, want: Render(flags, ipv6)})
	return nil
}

// ipv6Off says why the namespace has no IPv6, or nil.
func ipv6Off() error {
	if _, err := os.Stat("/proc/thread-self/net/if_inet6"); err != nil {
		return fmt.Errorf("IPv6 is off: %w", err)
	}
	off, err := os.ReadFile("/proc/sys/net/ipv6/conf/all/disable_ipv6")
	if err == nil && strings.TrimSpace(string(off)) == "1" {
		return errors.New("IPv6 is off: net.ipv6.conf.all.disable_ipv6 is 1")
	}
	return nil
}

// Notes says what was left out and why, for the operator; nil: nothing.
func (r *Rules) Notes() []string { return r.notes }

// SetFlags changes what is wanted; the next Ensure writes it when the text differs.
// The families and the back end stay as New found them.
func (r *Rules) SetFlags(flags Flags) error {
	if err := flags.Validate(); err != nil {
		return fmt.Errorf("netfilter rules: %w", err)
	}
	for _, f := range r.families {
		f.want = Render(flags, f.want.IPv6)
	}
	return nil
}

// Check reports whether the rules are as they should be. It reads once a family (one
// process) and writes nothing.
func (r *Rules) Check(ctx context.Context) (bool, error) {
	found, err := r.Diff(ctx)
	return len(found) == 0 && err == nil, err
}

// Diff says what is not as it should be, a line each. It reads as Check does.
func (r *Rules) Diff(ctx context.Context) ([]string, error) {
	var found []string
	var errs []error
	for _, f := range r.families {
		d, err := f.look(ctx)
		found = append(found, d.found...)
		errs = append(errs, err)
	}
	return found, errors.Join(errs...)
}

// Ensure makes the rules as they should be; changed says whether it had to write.
// The sets must exist. A family that fails does not stop the other. ErrBusy and
// ErrUnstable pass by themselves: try again soon.
func (r *Rules) Ensure(ctx context.Context) (changed bool, err error) {
	var errs []error
	for _, f := range r.families {
		wrote, err := f.ensure(ctx)
		changed = changed || wrote
		errs = append(errs, err)
	}
	return changed, errors.Join(errs...)
}

// look compares the kernel's rules with those wanted.
func (f *family) look(ctx context.Context) (difference, error) {
	l, err := f.list(ctx)
	if err != nil {
		return difference{}, err
	}
	d := f.want.compare(l)
	if len(d.found) > 0 {
		return d, nil
	}
	part := f.want.part(l)
	if f.seen == nil && !f.written {
		if d.found = f.want.compareText(l); len(d.found) > 0 {
			return d, nil
		}
	}
	if f.seen == nil {
		f.seen = part
	}
	for chain, text := range part {
		if f.seen[chain] != text {
			d.found = append(d.found, fmt.Sprintf("%s: rules of %s were changed", familyName(f.want.IPv6), chain))
		}
	}
	return d, nil
}

func (f *family) ensure(ctx context.Context) (changed bool, err error) {
	d, err := f.look(ctx)
	for range attempts {
		if err != nil || len(d.found) == 0 {
			return changed, err
		}
		if err := f.programs.write(ctx, f.want.input(d)); err != nil {
			return changed, err
		}
		changed = true
		f.seen, f.written = nil, true
		d, err = f.look(ctx)
	}
	if err == nil && len(d.found) > 0 {
		err = fmt.Errorf("%w: %s", ErrUnstable, strings.Join(d.found, "; "))
	}
	return changed, err
}

// part returns the text of our chains in the listing, by table and chain.
func (rs Ruleset) part(l listing) map[string]string {
	part := map[string]string{}
	for _, t := range rs.Tables {
		for _, c := range t.Chains {
			part[t.Name+" "+c.Name] = strings.Join(l.table(t.Name).chains[c.Name], "\n")
		}
	}
	return part
}

// Remove takes out our chains and jumps, and those of kube-proxy, and nothing else;
// twice is once. A chain that a foreign rule leads to is emptied and stays; kept
// names it with family and table.
func (r *Rules) Remove(ctx context.Context) (kept []string, err error) {
	var errs []error
	for _, f := range r.families {
		names, err := f.remove(ctx)
		kept = append(kept, names...)
		errs = append(errs, err)
	}
	return kept, errors.Join(errs...)
}

func (f *family) remove(ctx context.Context) ([]string, error) {
	l, err := f.programs.list(ctx)
	if err != nil {
		return nil, err
	}
	f.seen = nil
	input, kept := f.want.removal(l)
	if input == "" {
		return kept, nil
	}
	return kept, f.programs.write(ctx, input)
}
