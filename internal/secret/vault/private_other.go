//go:build !unix

package vault

import "io/fs"

// private cannot be told from the mode: the home directory's own access list
// decides.
func private(fs.FileInfo) bool { return true }
