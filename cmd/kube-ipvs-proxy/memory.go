package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// garbage is how much garbage there may be, in percent of what is in use, before it is
// collected. Most of the heap stays for the life of the process, so that Go's own 100
// would double it; a change of one endpoint leaves a few kilobytes.
const garbage = 50

// leastGarbage is how much there may be in any case, so that a small heap is not gone
// through after every few changes.
const leastGarbage = 4 << 20

// headroom is memory that is set aside and never used, so that it takes none. While it
// is there, garbage is collected as if so much more were in use: a heap that grows from
// nothing is not gone through again and again. With half of it (see garbage) the start
// with 5,000 Services is done before the first collection; collections were a fifth of it.
const headroom = 192 << 20

// thrift keeps the memory of the process small, and the work on it.
type thrift struct {
	headroom []byte
	pause    time.Duration // from the start to that time
	once     sync.Once
	followed func() // after each time that the limit follows the heap; nil: nothing
}

// saveMemory begins with that. An operator who sets GOGC or GOMEMLIMIT has chosen for
// himself, and nil is returned.
func saveMemory() *thrift {
	if os.Getenv("GOGC") != "" || os.Getenv("GOMEMLIMIT") != "" {
		return nil
	}
	debug.SetGCPercent(garbage)
	return &thrift{headroom: make([]byte, headroom), pause: time.Second}
}

// started gives back to the system, once, what only the start needed: the lists of all
// objects as they were read, and the operations that they led to.
//
// From then on garbage is collected when there is enough of it, and for no other
// reason: Go would also go through the heap every two minutes, which would be nearly
// all that the process does at rest.
func (t *thrift) started() {
	if t == nil {
		return
	}
	t.once.Do(func() {
		t.headroom = nil
		go func() {
			time.Sleep(t.pause) // what the start still has to do is more urgent
			debug.FreeOSMemory()
			setLimit()
			debug.SetGCPercent(-1)
			afterCollection(func() {
				setLimit()
				if t.followed != nil {
					t.followed()
				}
			})
		}()
	})
}

// setLimit has the next collection begin when so much garbage is there, counted from
// what is in use now, whatever the heap has grown to.
func setLimit() {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples)
	total, released, free, objects, live := samples[0].Value.Uint64(), samples[1].Value.Uint64(),
		samples[2].Value.Uint64(), samples[3].Value.Uint64(), samples[4].Value.Uint64()
	// What the limit counts besides objects; and the runtime keeps 3 % away from it.
	other := total - released - free - objects
	debug.SetMemoryLimit(int64(other + (live+max(live*garbage/100, leastGarbage))*100/97))
}

// afterCollection calls something after each collection of garbage, for ever.
func afterCollection(do func()) {
	type nobody struct{ _ [16]byte } // not a tiny object, which others would keep
	runtime.SetFinalizer(new(nobody), func(*nobody) {
		do()
		afterCollection(do)
	})
}
