//go:build kernel

package model

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"kube-ipvs-proxy/e2e/testbed"
)

// equal wants the kernel to be what a fresh start makes: at once, or after damage
// within the time of a few refreshes.
func (l *life) equal() {
	l.Helper()
	want, err := l.fresh()
	l.must(err)
	l.tell("a fresh start is known")
	defer func() { l.tell("equal") }()
	for end := time.Now().Add(patience); ; time.Sleep(500 * time.Millisecond) {
		l.settle()
		got, err := l.now(want)
		if err == nil && got == want {
			l.damaged = false
			return
		}
		if !l.damaged || time.Now().After(end) || err != nil {
			if !strings.HasSuffix(got, l.rules) { // they were not looked at
				want = strings.TrimSuffix(want, rulesMark+l.rules)
			}
			l.Fatalf("the kernel (+) is not what a fresh start makes (-): %v\n%s", err, Difference(want, got))
		}
	}
}

// now is what the kernel has; its rules are looked at when all else is as wanted and
// something may have happened to them, since that takes long in an emulated machine.
func (l *life) now(want string) (string, error) {
	got, err := Dump(l.node)
	if err != nil || got != strings.TrimSuffix(want, rulesMark+l.rules) {
		return got, err
	}
	if !l.damaged && !l.last {
		return want, nil
	}
	rules, err := DumpRules(l.node)
	return got + rulesMark + rules, err
}

// rulesMark is between the parts of a dump.
const rulesMark = "\n"

// fresh is what a start on the present objects makes of an empty kernel. The rules are
// the same for all objects: they are made once.
func (l *life) fresh() (text string, err error) {
	twin, err := testbed.NewTwin(testbed.Node1)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, twin.Close()) }()
	if err := once(twin.Host, l.lab.Manifests.Dir(), l.rules != ""); err != nil {
		return "", fmt.Errorf("fresh start: %w", err)
	}
	if l.rules == "" {
		if l.rules, err = DumpRules(twin.Host); err != nil {
			return "", err
		}
	}
	text, err = Dump(twin.Host)
	return text + rulesMark + l.rules, err
}
