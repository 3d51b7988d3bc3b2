package deps

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// importMethod is how pnpm brings files out of its store. Own says that they must
// be the folder's own: then clones, which share blocks until one is written, where
// the file system can, else copies; asking once is quicker than trying for every
// file.
func importMethod(store, to string, own bool) string {
	if !own {
		return "auto" // clones, else hard links, else copies
	}
	from, err := os.CreateTemp(store, stagingPrefix+"*")
	if err != nil {
		return "copy"
	}
	defer os.Remove(from.Name())
	defer from.Close()
	if _, err := from.WriteString("x"); err != nil {
		return "copy"
	}
	target := filepath.Join(to, "clone")
	f, err := os.Create(target)
	if err != nil {
		return "copy"
	}
	defer os.Remove(target)
	defer f.Close()
	if unix.IoctlFileClone(int(f.Fd()), int(from.Fd())) != nil {
		return "copy"
	}
	return "clone-or-copy"
}
