package pkgs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// unpacking writes the entries of an archive into a folder. It trusts nothing
// that an archive says about itself: sizes are counted, names are checked, and
// the folder is an os.Root.
type unpacking struct {
	ctx     context.Context
	root    *os.Root
	what    string // the archive, for errors
	limits  Limits
	archive int64 // bytes of the archive
	report  func(Progress)

	seen    map[string]entry // by folded path
	entries int
	bytes   int64
}

// entry is what has been made of one folded path.
type entry struct {
	path string
	dir  bool
}

func newUnpacking(ctx context.Context, dir, what string, archive int64, l Limits, f func(Progress)) (*unpacking, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &unpacking{ctx: ctx, root: root, what: what, limits: l, archive: archive, report: f, seen: map[string]entry{}}, nil
}

func (u *unpacking) refuse(name, format string, args ...any) error {
	return tool.Errorf(tool.ParameterError, "%s: the entry %q %s", u.what, shorten(name), fmt.Sprintf(format, args...)).
		WithHint("Nothing of the archive was installed. Pack the folder anew, with `toolyard toolbox pack` for example.")
}

func shorten(name string) string {
	if len(name) > 200 {
		return strings.ToValidUTF8(name[:200], "") + "…"
	}
	return name
}

// begin checks an entry and its name. An empty path is the folder itself.
func (u *unpacking) begin(name string, dir bool) (string, error) {
	if err := context.Cause(u.ctx); err != nil {
		return "", cancelled(err)
	}
	if u.entries++; u.entries > u.limits.Entries {
		return "", tooMany(u.what, u.limits)
	}
	clean, reason := cleanEntry(name)
	if reason != "" {
		return "", u.refuse(name, "%s", reason)
	}
	if clean == "" {
		if !dir {
			return "", u.refuse(name, "has no name")
		}
		return "", nil
	}
	return clean, u.claim(name, clean, dir)
}

// claim makes sure that a path and the folders above it are what they are for all
// entries and on all file systems.
func (u *unpacking) claim(name, clean string, dir bool) error {
	for above := path.Dir(clean); above != "."; above = path.Dir(above) {
		if err := u.claimOne(name, above, true); err != nil {
			return err
		}
	}
	return u.claimOne(name, clean, dir)
}

func (u *unpacking) claimOne(name, clean string, dir bool) error {
	key := fold(clean)
	before, ok := u.seen[key]
	switch {
	case !ok:
		if len(u.seen) > 2*u.limits.Entries { // folders that no entry names
			return tooMany(u.what, u.limits)
		}
		u.seen[key] = entry{clean, dir}
		return nil
	case before.path != clean:
		return u.refuse(name, "differs from %q only by case or by the form of its characters", shorten(before.path))
	case before.dir != dir:
		return u.refuse(name, "is a file and a folder")
	case !dir:
		return u.refuse(name, "is there twice")
	}
	return nil
}

func (u *unpacking) dir(name string) error {
	clean, err := u.begin(name, true)
	if err != nil || clean == "" {
		return err
	}
	return u.failed(name, u.root.MkdirAll(clean, 0o755))
}

// file writes one entry. Of the mode only whether it may be executed is kept.
func (u *unpacking) file(name string, mode fs.FileMode, r io.Reader) error {
	clean, err := u.begin(name, false)
	if err != nil {
		return err
	}
	if above := path.Dir(clean); above != "." {
		if err := u.root.MkdirAll(above, 0o755); err != nil {
			return u.failed(name, err)
		}
	}
	perm := fs.FileMode(0o644)
	if mode&0o111 != 0 {
		perm = 0o755
	}
	f, err := u.root.OpenFile(clean, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return u.failed(name, err)
	}
	_, err = io.Copy(&counted{f, u}, r)
	if e := f.Close(); err == nil {
		err = e
	}
	return u.failed(name, err)
}

func (u *unpacking) failed(name string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*tool.Error](err); ok {
		return err
	}
	if full(err) || errors.Is(err, fs.ErrPermission) {
		return failure(err, "unpacking %s", u.what)
	}
	return u.refuse(name, "cannot be unpacked: %v", err)
}

// counted is a file whose bytes count against the limits before they are
// written.
type counted struct {
	f *os.File
	u *unpacking
}

func (c *counted) Write(b []byte) (int, error) {
	u := c.u
	if err := context.Cause(u.ctx); err != nil {
		return 0, cancelled(err)
	}
	u.bytes += int64(len(b))
	if u.bytes > u.limits.Unpacked {
		return 0, tooLarge(u.what, u.limits)
	}
	if u.bytes > ratioFrom && u.bytes/u.limits.Ratio > u.archive {
		return 0, tool.Errorf(tool.ResourceExhausted, "%s unpacks to more than %d times its size", u.what, u.limits.Ratio).
			WithHint("Archives that do are made to fill disks. If this one is not, unpack it yourself and install the folder.")
	}
	n, err := c.f.Write(b)
	report(u.report, Progress{Stage: "unpack", Done: u.bytes})
	return n, err
}
