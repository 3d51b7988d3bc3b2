//go:build !linux

package sqlite

import "os"

// syncData waits until the disk has the file.
func syncData(f *os.File) error { return f.Sync() }
