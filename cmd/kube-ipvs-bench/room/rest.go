package room

import (
	"context"
	"os"
	"strconv"
	"strings"
	"time"
)

// HostRests waits until the whole machine does little, and at most so long: the kernel
// takes a namespace down after its end, which for thousands of servers and addresses
// would cost the next proxy its time.
func HostRests(ctx context.Context, most time.Duration) {
	const window, calm = 300 * time.Millisecond, 60 * time.Millisecond
	until := time.Now().Add(most)
	for quiet := 0; quiet < 2 && time.Now().Before(until) && ctx.Err() == nil; {
		before := busy()
		time.Sleep(window)
		if busy()-before < calm {
			quiet++
		} else {
			quiet = 0
		}
	}
}

// busy is the time that all CPUs have worked: the first line of /proc/stat without the
// columns idle and iowait, in ticks of 10 ms.
func busy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	ticks := 0
	for i, field := range strings.Fields(line) {
		if i >= 1 && i <= 8 && i != 4 && i != 5 {
			n, _ := strconv.Atoi(field) // the kernel writes numbers
			ticks += n
		}
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
