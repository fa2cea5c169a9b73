package watch

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// job decodes one text into its place.
type job struct {
	text text
	hash uint64
	into **document
}

// run decodes all jobs on all processors.
func run(jobs []job) {
	var next atomic.Int64
	work := func() {
		for {
			i := int(next.Add(1)) - 1
			if i >= len(jobs) {
				return
			}
			d := decode(jobs[i].text)
			d.hash = jobs[i].hash
			*jobs[i].into = d
		}
	}
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(jobs)) - 1 {
		group.Go(work)
	}
	work()
	group.Wait()
}
