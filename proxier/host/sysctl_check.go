package host

import "path/filepath"

// CheckSysctls reads each setting below root and returns those that EnsureSysctls
// would write or tell, in the order given. It writes nothing.
func CheckSysctls(root string, want []Sysctl) []SysctlProblem {
	var problems []SysctlProblem
	for _, s := range want {
		have, err := readSetting(filepath.Join(root, s.Key))
		if err != nil || !s.holds(have) {
			problems = append(problems, SysctlProblem{Sysctl: s, Have: have, Err: err})
		}
	}
	return problems
}
