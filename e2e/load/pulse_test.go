package load

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestPulse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pulse{}
		for range 100 {
			p.note(time.Now())
			time.Sleep(beat)
		}
		if p.stood(10 * time.Second) {
			t.Error("a machine that runs stands still")
		}
		time.Sleep(9 * time.Second)
		if !p.stood(20 * time.Second) {
			t.Error("nine seconds of twenty are not noticed")
		}
		for range 400 {
			time.Sleep(beat)
			p.note(time.Now())
		}
		if p.stood(30 * time.Second) {
			t.Error("what was before counts")
		}
	})
}
