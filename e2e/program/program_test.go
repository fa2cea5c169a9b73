package program

import (
	"bytes"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	var c Tail
	for range 5 {
		if _, err := c.Write(bytes.Repeat([]byte{'a'}, TailSize/2)); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = c.Write([]byte("end"))
	if s := c.String(); len(s) != TailSize || !strings.HasSuffix(s, "aend") {
		t.Errorf("kept %d bytes, end %q", len(s), s[len(s)-4:])
	}
}
