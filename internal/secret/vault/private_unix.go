//go:build unix

package vault

import "io/fs"

// private reports whether only its owner can read a file.
func private(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 == 0 }
