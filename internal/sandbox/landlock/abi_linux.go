package landlock

import "golang.org/x/sys/unix"

// ABI is the version of the interface that the running kernel has; 0 where
// Landlock is not built in or not enabled.
func ABI() int {
	const createRulesetVersion = 1
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, createRulesetVersion)
	if errno != 0 {
		return 0
	}
	return int(abi)
}
