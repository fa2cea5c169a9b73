package proxier

import (
	"strings"
	"testing"
	"time"
)

// Nobody tells of changed rules any more: the loop goes on without.
func TestRulesAreToldNoMore(t *testing.T) {
	running(t, func(l *loop) { l.source.put(service(1), 1) }, func(l *loop) {
		l.taken()
		close(l.told)
		l.pass(time.Minute)
		if n := len(l.taken()); n > 60 {
			t.Errorf("%d rounds in a minute", n)
		}
		if got := l.log.take("told no more"); len(got) != 1 || !strings.Contains(got[0], "WARN") {
			t.Errorf("said: %v", got)
		}
		l.source.put(service(2), 1)
		l.has("vs 10.96.0.2:80/tcp rr")
	})
}
