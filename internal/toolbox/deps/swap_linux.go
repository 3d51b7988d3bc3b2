package deps

import "golang.org/x/sys/unix"

// exchange swaps two names of one file system in one step; false if that cannot
// be done here.
func exchange(a, b string) bool {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) == nil
}
