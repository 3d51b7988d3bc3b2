package runtimes

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
)

// limits of an archive. A Node is 130 MB in 3,000 files.
type limits struct {
	bytes int64
	files int
}

var defaultLimits = limits{bytes: 1 << 30, files: 50_000}

const (
	maxDepth     = 32
	maxComponent = 255
)

// extract unpacks the tar.gz of an npm package into dir, which is empty, without
// the directory that everything in it lies in. Only files and directories may be
// in it; a name that leads elsewhere, differs from another one only in case, or
// means something to any system but its letters is refused. What was unpacked
// before an error stays: the caller throws all of it away.
func extract(archive io.Reader, dir string, max limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	zr, err := gzip.NewReader(archive)
	if err != nil {
		return fmt.Errorf("not a gzip file: %w", err)
	}
	x := &extraction{root: root, left: max.bytes, files: max.files, seen: map[string]bool{}}
	tr := tar.NewReader(zr)
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("not a tar file: %w", err)
		}
		if err := x.entry(h, tr); err != nil {
			return fmt.Errorf("entry %.200q: %w", h.Name, err)
		}
	}
	if len(x.seen) == 0 {
		return errors.New("it is empty")
	}
	return nil
}

type extraction struct {
	root  *os.Root
	left  int64
	files int
	seen  map[string]bool // lower case; whether it is a directory
}

func (x *extraction) entry(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeXGlobalHeader {
		return nil
	}
	name, err := inside(h.Name)
	if err != nil {
		return err
	}
	if x.files--; x.files < 0 {
		return errors.New("there are too many")
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if name == "" {
			return nil
		}
		return x.directory(name)
	case tar.TypeReg:
		if name == "" {
			return errors.New("it lies in no directory")
		}
		return x.file(name, h, content)
	case tar.TypeSymlink, tar.TypeLink:
		return errors.New("it is a link")
	}
	return fmt.Errorf("it is of type %q", h.Typeflag)
}

func (x *extraction) file(name string, h *tar.Header, content io.Reader) error {
	if h.Size < 0 || h.Size > x.left {
		return errors.New("it is too large")
	}
	x.left -= h.Size
	if err := x.directory(path.Dir(name)); err != nil {
		return err
	}
	if _, twice := x.seen[strings.ToLower(name)]; twice {
		return errors.New("its name is there twice")
	}
	x.seen[strings.ToLower(name)] = false
	mode := fs.FileMode(0o644)
	if h.Mode&0o111 != 0 {
		mode = 0o755
	}
	f, err := x.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if _, err = io.CopyN(f, content, h.Size); err == nil {
		err = f.Chmod(mode) // whatever the umask
	}
	if err == nil && h.Size > 1<<20 {
		err = f.Sync()
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// directory makes a directory and those above it.
func (x *extraction) directory(name string) error {
	if name == "." {
		return nil
	}
	if err := x.directory(path.Dir(name)); err != nil {
		return err
	}
	key := strings.ToLower(name)
	if isDir, known := x.seen[key]; known {
		if !isDir {
			return errors.New("a file is in its way")
		}
		if info, err := x.root.Lstat(name); err != nil || !info.IsDir() {
			return errors.New("its name is there in another case")
		}
		return nil
	}
	if x.files--; x.files < 0 {
		return errors.New("there are too many")
	}
	x.seen[key] = true
	if err := x.root.Mkdir(name, 0o755); err != nil {
		return err
	}
	return nil
}

// inside is the path of an entry below the archive's first directory, "" for that
// directory itself. It refuses what could lead elsewhere on any system.
func inside(name string) (string, error) {
	name = strings.TrimPrefix(strings.TrimSuffix(name, "/"), "./")
	if name == "" || name == "." {
		return "", errors.New("it has no name")
	}
	if strings.ContainsAny(name, "\\:\x00") {
		return "", errors.New("its name has a letter that is no part of names everywhere")
	}
	parts := strings.Split(name, "/")
	if len(parts) > maxDepth {
		return "", errors.New("it lies too deep")
	}
	for _, part := range parts {
		if part == "" || part == "." || part == ".." || len(part) > maxComponent {
			return "", errors.New("its path is not a plain one")
		}
		if strings.TrimRight(part, " .") != part || strings.IndexFunc(part, func(c rune) bool { return c < ' ' || c == 0x7f }) >= 0 {
			return "", errors.New("its path is not a plain one")
		}
	}
	return strings.Join(parts[1:], "/"), nil
}
