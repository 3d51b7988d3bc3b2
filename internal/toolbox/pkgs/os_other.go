//go:build !unix

package pkgs

import (
	"errors"
	"io/fs"
	"os"
)

// Without inodes and locks that end with their process nothing of what this
// package promises can be kept, so every change is refused.
var errNoLocks = errors.New("this system has no file locks that end with their process")

func inode(fs.FileInfo) uint64 { return 0 }

func full(error) bool { return false }

func tryLock(*os.File) (bool, error) { return false, errNoLocks }

func shareLock(*os.File) (bool, error) { return false, errNoLocks }

func openRegular(name string) (*os.File, error) { return os.Open(name) }

func syncDir(string) error { return nil }
