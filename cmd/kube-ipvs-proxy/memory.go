package main

import (
	"os"
	"runtime/debug"
	"sync"
)

// garbage is how much garbage there may be, in percent of what is in use, before it is
// collected. Most of the heap stays for the life of the process, so that Go's own 100
// would double it; a change of one endpoint leaves a few kilobytes.
const garbage = 50

// thrift keeps the memory of the process small. An operator who sets GOGC has chosen
// for himself.
func thrift() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
}

// afterStart gives back to the system, once, what only the start needed: the lists of
// all objects as they were read, and the operations that made them.
type afterStart struct{ once sync.Once }

func (a *afterStart) complete() { a.once.Do(func() { go debug.FreeOSMemory() }) }
