package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSettableRoot(t *testing.T) {
	mounted := t.TempDir()
	if got := settableRoot(mounted); got != ProcSys {
		t.Errorf("nothing is mounted: %s", got)
	}
	if err := os.MkdirAll(filepath.Join(mounted, "net", "ipv4"), 0o755); err != nil {
		t.Fatal(err)
	}
	if got := settableRoot(mounted); got != mounted {
		t.Errorf("it is mounted: %s", got)
	}
}

// TestSettingsAreAllOfTheNet: others would not be below a mounted root.
func TestSettingsAreAllOfTheNet(t *testing.T) {
	all := Conntrack{MaxPerCore: 1, Min: 1, TCPEstablished: 1e9, TCPCloseWait: 1e9, UDP: 1e9, UDPStream: 1e9, TCPBeLiberal: true}.Sysctls(1)
	for _, release := range []string{"5.4.0", "6.1.0"} {
		all = append(all, Sysctls(SysctlOptions{Release: release, IPv6: true, StrictARP: true})...)
	}
	for _, s := range all {
		if !strings.HasPrefix(s.Key, "net/") {
			t.Errorf("%s is not below net", s.Key)
		}
	}
	if len(all) < 10 {
		t.Errorf("only %d settings", len(all))
	}
}
