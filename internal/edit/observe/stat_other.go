//go:build !unix

package observe

import "io/fs"

func stampOf(info fs.FileInfo) stamp {
	return stamp{size: info.Size(), mtime: info.ModTime(), mode: info.Mode()}
}

const nonBlock = 0
