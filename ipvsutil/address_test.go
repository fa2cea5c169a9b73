package ipvsutil

import (
	"strings"
	"testing"
)

func TestCaptureRoutesValidate(t *testing.T) {
	if err := DefaultCaptureRoutes.Validate(); err != nil {
		t.Errorf("default: %v", err)
	}
	for want, change := range map[string]func(*CaptureRoutes){
		"mark is zero":        func(r *CaptureRoutes) { r.Mark = 0 },
		"table 0":             func(r *CaptureRoutes) { r.Table = 0 },
		"table 253":           func(r *CaptureRoutes) { r.Table = 253 },
		"table 254":           func(r *CaptureRoutes) { r.Table = 254 },
		"table 255":           func(r *CaptureRoutes) { r.Table = 255 },
		"rule priority 0":     func(r *CaptureRoutes) { r.Priority = 0 },
		"rule priority 32766": func(r *CaptureRoutes) { r.Priority = 32766 },
		"route protocol 2":    func(r *CaptureRoutes) { r.Protocol = 2 },
		"route protocol 4":    func(r *CaptureRoutes) { r.Protocol = 4 },
	} {
		r := DefaultCaptureRoutes
		change(&r)
		if err := r.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", r, err, want)
		}
	}
	for _, r := range []CaptureRoutes{{1, 252, 1, 5}, {1 << 31, 1 << 31, 32765, 255}} {
		if err := r.Validate(); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
