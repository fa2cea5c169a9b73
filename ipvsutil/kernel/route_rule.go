package kernel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	vnetlink "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"kube-ipvs-proxy/ipvsutil"
)

// ensureRules adds the policy rule of each family where it is missing.
func (a *Addresses) ensureRules(ctx context.Context) error {
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := a.rules(ctx, family)
		if err == nil && len(a.ours(rules, true)) == 0 {
			err = a.handle.RuleAdd(a.rule(family))
			if errors.Is(err, fs.ErrExist) { // somebody was faster
				err = nil
			}
		}
		if family == unix.AF_INET6 && isNoIPv6(err) {
			continue
		}
		if err != nil {
			return a.ruleError("add rule", family, err)
		}
	}
	return nil
}

// Rules names the policy rules that RemoveRules would delete.
func (a *Addresses) Rules(ctx context.Context) ([]string, error) {
	var names []string
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := a.rules(ctx, family)
		if err != nil && !(family == unix.AF_INET6 && isNoIPv6(err)) {
			return nil, a.ruleError("list rules", family, err)
		}
		for range a.ours(rules, false) {
			names = append(names, a.ruleName(family))
		}
	}
	return names, nil
}

// RemoveRules deletes the policy rules that send our mark to our table, whatever
// their priority (another start may have had another one). None there is no error.
func (a *Addresses) RemoveRules(ctx context.Context) error {
	var errs []error
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		rules, err := a.rules(ctx, family)
		for _, rule := range a.ours(rules, false) {
			if gone := a.handle.RuleDel(&rule); gone != nil && !errors.Is(gone, fs.ErrNotExist) {
				err = errors.Join(err, gone)
			}
		}
		if err != nil && !(family == unix.AF_INET6 && isNoIPv6(err)) {
			errs = append(errs, a.ruleError("delete rule", family, err))
		}
	}
	return errors.Join(errs...)
}

func (a *Addresses) rules(ctx context.Context, family int) ([]vnetlink.Rule, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var rules []vnetlink.Rule
	err := retryInterrupted(func() (err error) {
		rules, err = a.handle.RuleList(family)
		return err
	})
	if err != nil {
		return nil, err
	}
	return rules, nil
}

// rule is the policy rule as it should be. Its protocol number signs it as ours.
func (a *Addresses) rule(family int) *vnetlink.Rule {
	rule := vnetlink.NewRule()
	rule.Family = family
	rule.Mark = a.routes.Mark
	rule.Mask = &a.routes.Mark
	rule.Table = int(a.routes.Table)
	rule.Priority = int(a.routes.Priority)
	rule.Protocol = a.routes.Protocol
	return rule
}

// ours picks the rules that send exactly our mark to our table and ask for nothing
// else; with priority, only those that stand where ours should.
func (a *Addresses) ours(rules []vnetlink.Rule, priority bool) []vnetlink.Rule {
	var ours []vnetlink.Rule
	for _, r := range rules {
		masked := r.Mark == a.routes.Mark && r.Mask != nil && *r.Mask == a.routes.Mark
		plain := !r.Invert && r.Src == nil && r.Dst == nil && r.IifName == "" && r.OifName == "" && r.Tos == 0 &&
			r.IPProto == 0 && r.Goto < 0
		placed := !priority || r.Priority == int(a.routes.Priority)
		if masked && plain && placed && r.Table == int(a.routes.Table) {
			ours = append(ours, r)
		}
	}
	return ours
}

func (a *Addresses) ruleError(op string, family int, err error) error {
	return &ipvsutil.OpError{Op: op, Object: a.ruleName(family), Err: err}
}

func (a *Addresses) ruleName(family int) string {
	name := "IPv4"
	if family == unix.AF_INET6 {
		name = "IPv6"
	}
	return fmt.Sprintf("%s fwmark %#x/%#[2]x lookup %d", name, a.routes.Mark, a.routes.Table)
}
