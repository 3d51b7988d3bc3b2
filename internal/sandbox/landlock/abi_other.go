//go:build !linux

package landlock

// ABI is 0: only Linux has Landlock.
func ABI() int { return 0 }
