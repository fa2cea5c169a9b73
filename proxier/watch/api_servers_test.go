package watch

import (
	"fmt"
	"testing"
)

func TestServersOfAClient(t *testing.T) {
	c := client(t, "https://172.30.0.9:6443", "https://[fd30::9]", "https://127.0.0.1:8443")
	got, err := c.Servers(t.Context())
	if want := "[172.30.0.9:6443 [fd30::9]:443 127.0.0.1:8443]"; err != nil || fmt.Sprint(got) != want {
		t.Errorf("got %v (%v), want %s", got, err, want)
	}
	c = client(t, "https://no-such-name.invalid", "https://172.30.0.9:6443")
	if got, err := c.Servers(t.Context()); err == nil || fmt.Sprint(got) != "[172.30.0.9:6443]" {
		t.Errorf("got %v (%v), want the one that is known and an error", got, err)
	}
}
