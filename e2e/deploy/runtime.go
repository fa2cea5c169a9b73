package deploy

// What container runtimes give to every container, as containerd does.

// maskedPaths and readonlyPaths are those of containers that are not privileged.
var (
	maskedPaths = []string{
		"/proc/acpi", "/proc/asound", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// system are the mounts of the kernel's file systems.
func system(privileged bool) []Mount {
	sys := "ro"
	if privileged {
		sys = "rw"
	}
	return []Mount{
		{"/proc", "proc", "proc", []string{"nosuid", "noexec", "nodev"}},
		{"/dev", "tmpfs", "tmpfs", []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{"/dev/pts", "devpts", "devpts", []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620"}},
		{"/dev/shm", "tmpfs", "shm", []string{"nosuid", "noexec", "nodev", "mode=1777", "size=65536k"}},
		{"/dev/mqueue", "mqueue", "mqueue", []string{"nosuid", "noexec", "nodev"}},
		{"/sys", "sysfs", "sysfs", []string{"nosuid", "noexec", "nodev", sys}},
		{"/sys/fs/cgroup", "cgroup", "cgroup", []string{"nosuid", "noexec", "nodev", "relatime", sys}},
	}
}
