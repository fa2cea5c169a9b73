package deploy

// Spec is the part of an OCI runtime configuration (config.json) that is used here.
type Spec struct {
	OCIVersion string  `json:"ociVersion"`
	Process    Process `json:"process"`
	Root       Root    `json:"root"`
	Hostname   string  `json:"hostname,omitempty"`
	Mounts     []Mount `json:"mounts"`
	Linux      Linux   `json:"linux"`
}

// Process is what runs.
type Process struct {
	User            User         `json:"user"`
	Args            []string     `json:"args"`
	Env             []string     `json:"env"`
	Cwd             string       `json:"cwd"`
	Capabilities    Capabilities `json:"capabilities"`
	NoNewPrivileges bool         `json:"noNewPrivileges"`
	OOMScoreAdj     int          `json:"oomScoreAdj"`
}

// User is by number.
type User struct {
	UID int64 `json:"uid"`
	GID int64 `json:"gid"`
}

// Capabilities are the sets that a runtime fills for a user 0.
type Capabilities struct {
	Bounding  []string `json:"bounding"`
	Effective []string `json:"effective"`
	Permitted []string `json:"permitted"`
}

// Root is the root file system.
type Root struct {
	Path     string `json:"path"`
	Readonly bool   `json:"readonly"`
}

// Mount is one mount inside.
type Mount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Source      string   `json:"source"`
	Options     []string `json:"options,omitempty"`
}

// Linux has the kernel's part.
type Linux struct {
	Namespaces    []Namespace `json:"namespaces"`
	MaskedPaths   []string    `json:"maskedPaths,omitempty"`
	ReadonlyPaths []string    `json:"readonlyPaths,omitempty"`
	Seccomp       *Seccomp    `json:"seccomp,omitempty"`
	Resources     Resources   `json:"resources"`
	CgroupsPath   string      `json:"cgroupsPath,omitempty"`
}

// Namespace is one that is new for the container.
type Namespace struct {
	Type string `json:"type"`
}

// Resources are limits; devices are all refused but those that a runtime always allows.
type Resources struct {
	Devices []Device `json:"devices,omitempty"`
	Memory  *Memory  `json:"memory,omitempty"`
}

// Device is a rule of the device cgroup.
type Device struct {
	Allow  bool   `json:"allow"`
	Access string `json:"access"`
}

// Memory has the limit in bytes.
type Memory struct {
	Limit int64 `json:"limit"`
}

// Seccomp is a filter of system calls.
type Seccomp struct {
	DefaultAction   string    `json:"defaultAction"`
	DefaultErrnoRet *uint     `json:"defaultErrnoRet,omitempty"`
	Architectures   []string  `json:"architectures"`
	Syscalls        []Syscall `json:"syscalls"`
}

// Syscall is a rule of the filter.
type Syscall struct {
	Names    []string     `json:"names"`
	Action   string       `json:"action"`
	ErrnoRet *uint        `json:"errnoRet,omitempty"`
	Args     []SyscallArg `json:"args,omitempty"`
}

// SyscallArg is a condition of a rule.
type SyscallArg struct {
	Index    uint   `json:"index"`
	Value    uint64 `json:"value"`
	ValueTwo uint64 `json:"valueTwo,omitempty"`
	Op       string `json:"op"`
}
