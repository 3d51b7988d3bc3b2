package workspace

import (
	"errors"
	"io/fs"
	"os"

	"github.com/toolyard/toolyard/tool"
)

// Open opens the file for reading. It never waits: a FIFO, socket or device is
// refused, and so is a directory. The caller closes the file.
func (p *Path) Open() (*os.File, error) {
	return p.OpenFile(os.O_RDONLY, 0)
}

// OpenFile opens the file as [os.OpenFile] does, below the root, and refuses
// everything but a regular file.
func (p *Path) OpenFile(flag int, perm fs.FileMode) (*os.File, error) {
	if p.Info != nil {
		if err := p.Regular(); err != nil {
			return nil, err
		}
	}
	f, err := p.Root.OpenFile(p.Rel, flag|nonBlock, perm)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, notFound(p.Display)
	}
	if err != nil {
		return nil, fileError(p.Display, err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, fileError(p.Display, err)
	}
	if err := regular(p.Display, info); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// Regular tells why the path is not a regular file; nil if it is one.
func (p *Path) Regular() error {
	if p.Info == nil {
		return notFound(p.Display)
	}
	return regular(p.Display, p.Info)
}

func regular(name string, info fs.FileInfo) error {
	mode := info.Mode()
	kind := ""
	switch {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		return tool.Errorf(tool.ParameterError, "%s is a directory, not a file", shorten(name)).
			WithHint("Use list to see what is in it.")
	case mode&fs.ModeNamedPipe != 0:
		kind = "a FIFO"
	case mode&fs.ModeSocket != 0:
		kind = "a socket"
	case mode&fs.ModeDevice != 0:
		kind = "a device"
	case mode&fs.ModeSymlink != 0:
		kind = "a symlink"
	default:
		kind = "not a regular file"
	}
	return tool.Errorf(tool.ParameterError, "%s is %s; only regular files can be read or written", shorten(name), kind)
}
