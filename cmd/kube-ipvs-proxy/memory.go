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

// headroom is memory that is set aside and never used, so that it takes none. While it
// is there, garbage is collected as if so much more were in use: a heap that grows from
// nothing is not gone through again and again.
const headroom = 32 << 20

// thrift keeps the memory of the process small, and the work on it. An operator who
// sets GOGC has chosen for himself.
type thrift struct {
	headroom []byte
	once     sync.Once
}

func saveMemory() *thrift {
	t := &thrift{}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
		t.headroom = make([]byte, headroom)
	}
	return t
}

// started gives back to the system, once, what only the start needed: the lists of all
// objects as they were read, and the operations that they led to.
func (t *thrift) started() {
	if t == nil {
		return
	}
	t.once.Do(func() {
		t.headroom = nil
		go debug.FreeOSMemory()
	})
}
