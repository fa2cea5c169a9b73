package host

import (
	"os"
	"path/filepath"
)

// MountedProcSys is where a container that is not privileged, and whose own /proc/sys
// is read-only, may find the part "net" of the node's settings mounted for writing.
const MountedProcSys = "/host/proc/sys"

// SettableRoot is the root below which the settings of Sysctls can be written:
// MountedProcSys where that is mounted, else ProcSys.
func SettableRoot() string { return settableRoot(MountedProcSys) }

func settableRoot(mounted string) string {
	if _, err := os.Stat(filepath.Join(mounted, "net", "ipv4")); err != nil {
		return ProcSys
	}
	return mounted
}
