//go:build !linux

package workspace

import (
	"io/fs"
	"os"
)

// openDir opens a directory below root that is reached without any symlink.
func openDir(p *Path, rel string) (*os.Root, error) { return openPlain(p.Root, rel) }

// direct would resolve the common case by one system call, which only Linux has.
func direct(*Path, *root, string) bool { return false }

// Small would read a small file by four system calls; [Path.Open] does it here.
func (p *Path) Small([]byte) ([]byte, fs.FileInfo, bool) { return nil, nil, false }
