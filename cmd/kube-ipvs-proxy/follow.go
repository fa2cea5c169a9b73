package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"kube-ipvs-proxy/proxier/config"
)

// follower takes over a changed configuration file, or ends the process so that its
// supervisor starts it with the new one. Traffic goes on meanwhile.
type follower struct {
	read    func() (config.Raw, config.Options, error)
	now     config.Raw
	level   *slog.LevelVar
	adopt   func(config.Options)
	took    func(config.Raw) // is told what counts now
	restart context.CancelCauseFunc
	log     *slog.Logger
}

// changed reads the file again. One that is refused changes nothing: a restart would
// only end in a loop of starts that fail.
func (f *follower) changed() {
	next, options, err := f.read()
	if err != nil {
		f.log.Error("the changed configuration is refused; going on with the one before", "err", err)
		return
	}
	live, restart := config.Diff(f.now, next)
	if len(restart) > 0 {
		f.restart(exitError{1, fmt.Errorf("configuration changed, and a restart has to take it over: %s", strings.Join(restart, ", "))})
		return
	}
	before, _ := f.now.Validate() // it was valid
	f.now = next
	f.took(next)
	f.level.Set(logLevel(options))
	f.adopt(options)
	f.log.Info("configuration changed", "adopted", strings.Join(live, ", "))
	logNotes(f.log, slices.DeleteFunc(options.Notes, func(n config.Note) bool { return slices.Contains(before.Notes, n) }))
}
