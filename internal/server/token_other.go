//go:build !unix

package server

import "io/fs"

// private cannot be told from the mode here: the home directory's access list
// decides.
func private(fs.FileInfo) bool { return true }
