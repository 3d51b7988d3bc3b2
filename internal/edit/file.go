package edit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/toolyard/toolyard/internal/text"
	"github.com/toolyard/toolyard/internal/workspace"
	"github.com/toolyard/toolyard/tool"
)

// file is what is at a path at one moment.
type file struct {
	path   *workspace.Path
	exists bool
	raw    []byte
	hash   string // "" if nothing is there
	mode   fs.FileMode
}

// Content is a file's bytes and the text they stand for.
type Content struct {
	Raw      []byte
	Hash     string
	Mode     fs.FileMode
	Encoding text.Encoding
	Text     *text.Text // nil for binary
}

// Load reads a file as the engine does before an edit: regular, not larger than
// may be edited, decoded. It checks neither kind nor whether it was seen. The
// errors are those of the layers 5 and 6 and RESOURCE_EXHAUSTED.
func (e *Engine) Load(ctx context.Context, p *workspace.Path) (*Content, error) {
	f, err := e.load(ctx, p)
	if err != nil {
		return nil, err
	}
	if !f.exists {
		return nil, missing(p)
	}
	c := &Content{Raw: f.raw, Hash: f.hash, Mode: f.mode, Encoding: text.Detect(f.raw)}
	if !c.Encoding.IsBinary() {
		c.Text = c.Encoding.Decode(f.raw)
	}
	return c, nil
}

// load reads what is at p now. Nothing there is no error.
func (e *Engine) load(ctx context.Context, p *workspace.Path) (*file, error) {
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	dir, base, err := p.Parent(false)
	if errors.Is(err, fs.ErrNotExist) {
		return &file{path: p}, nil
	}
	if err != nil {
		return nil, writeError(p.Display, err)
	}
	defer dir.Close()
	return e.loadIn(dir, base, p)
}

// loadIn reads name in an open directory.
func (e *Engine) loadIn(dir *os.Root, base string, p *workspace.Path) (*file, error) {
	f, err := openRegular(dir, base, os.O_RDONLY, p)
	if errors.Is(err, fs.ErrNotExist) {
		return &file{path: p}, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, writeError(p.Display, err)
	}
	if info.Size() > e.config.MaxFile {
		return nil, e.tooLarge(p.Display, info.Size())
	}
	content := bytes.NewBuffer(make([]byte, 0, info.Size()+bytes.MinRead))
	if _, err := content.ReadFrom(io.LimitReader(f, e.config.MaxFile+1)); err != nil {
		return nil, writeError(p.Display, err)
	}
	raw := content.Bytes()
	if int64(len(raw)) > e.config.MaxFile {
		return nil, e.tooLarge(p.Display, int64(len(raw)))
	}
	return &file{path: p, exists: true, raw: raw, hash: Sum(raw), mode: info.Mode()}, nil
}

func (e *Engine) tooLarge(name string, size int64) error {
	return tool.Errorf(tool.ResourceExhausted, "%s would have %s, more than the %s up to which files are changed", name, sizeText(size), sizeText(e.config.MaxFile)).
		WithHint("Change it with a program that streams, such as sed in bash.")
}

// sizeText is a size as people say it.
func sizeText(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}

// openRegular opens a regular file that is no symlink, without ever waiting.
// fs.ErrNotExist comes back as it is, what is not regular as layer 6.
func openRegular(dir *os.Root, base string, flag int, p *workspace.Path) (*os.File, error) {
	before, err := dir.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, writeError(p.Display, err)
	}
	now := *p
	now.Info = before
	if err := checkKind(&now); err != nil {
		return nil, err
	}
	f, err := dir.OpenFile(base, flag|nonBlock, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, writeError(p.Display, err)
	}
	after, err := f.Stat()
	if err == nil && (!after.Mode().IsRegular() || !os.SameFile(before, after)) {
		err = fmt.Errorf("%w while it was opened", errChanged)
	}
	if err != nil {
		f.Close()
		return nil, writeError(p.Display, err)
	}
	return f, nil
}

// errChanged says that a file is not as it was when the change was worked out.
var errChanged = errors.New("the file changed")

func detect(f *file) text.Encoding { return text.Detect(f.raw) }

// fileMode takes the permission and the set-id and sticky bits of a Unix mode.
func fileMode(mode uint32) fs.FileMode {
	m := fs.FileMode(mode & 0o777)
	for bit, flag := range map[uint32]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if mode&bit != 0 {
			m |= flag
		}
	}
	return m
}
