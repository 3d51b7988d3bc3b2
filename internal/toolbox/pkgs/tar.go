package pkgs

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/toolyard/toolyard/tool"
)

// untar unpacks a tar archive, compressed by gzip or not, into a folder.
func untar(ctx context.Context, r io.Reader, length int64, dir, what string, l Limits, f func(Progress)) error {
	u, err := newUnpacking(ctx, dir, what, length, l, f)
	if err != nil {
		return failure(err, "unpacking %s", what)
	}
	defer u.root.Close()
	return u.tar(r)
}

func (u *unpacking) tar(r io.Reader) error {
	buffered := bufio.NewReaderSize(r, 64<<10)
	src := io.Reader(buffered)
	if magic, _ := buffered.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(buffered)
		if err != nil {
			return u.broken(err)
		}
		defer z.Close()
		src = z
	}
	// Headers are unpacked too, and what lies between the entries: a gigabyte of
	// them is a bomb without a single file.
	counted := &bounded{r: src, left: 2*u.limits.Unpacked + int64(u.limits.Entries)*4096, u: u}
	for tr := tar.NewReader(counted); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			if counted.zeros < 512 { // archive/tar does without the block that ends one
				return u.broken(errors.New("it was cut off"))
			}
			// To the end, so that the checksum is looked at.
			if _, err := io.Copy(io.Discard, counted); err != nil {
				return u.broken(err)
			}
			return nil
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) {
			return u.broken(err)
		}
		if err := u.tarEntry(h, tr); err != nil {
			return err
		}
	}
}

func (u *unpacking) tarEntry(h *tar.Header, r io.Reader) error {
	switch h.Typeflag {
	case tar.TypeReg:
		if h.Size > u.limits.Unpacked {
			return tooLarge(u.what, u.limits)
		}
		return u.file(h.Name, fs.FileMode(h.Mode), &reading{r, u})
	case tar.TypeDir:
		return u.dir(h.Name)
	case tar.TypeXGlobalHeader: // git archive says the commit in one
		if u.entries++; u.entries > u.limits.Entries {
			return tooMany(u.what, u.limits)
		}
		return nil
	case tar.TypeSymlink:
		return u.refuse(h.Name, "is a symlink, to %q", shorten(h.Linkname))
	case tar.TypeLink:
		return u.refuse(h.Name, "is a hard link, to %q", shorten(h.Linkname))
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		return u.refuse(h.Name, "is a device or a pipe")
	}
	return u.refuse(h.Name, "is neither a file nor a folder (tar type %q)", h.Typeflag)
}

// broken is the error of an archive that cannot be read.
func (u *unpacking) broken(err error) error {
	if _, ok := errors.AsType[*tool.Error](err); ok {
		return err
	}
	return tool.Errorf(tool.ParameterError, "%s cannot be unpacked: it is broken or no archive (%v)", u.what, err).
		WithHint("Archives are .zip, .mcpb, .tar, .tar.gz and .tgz.")
}

// reading marks what goes wrong in reading an archive as the archive's fault, so
// that it is not taken for the disk's.
type reading struct {
	r io.Reader
	u *unpacking
}

func (r *reading) Read(b []byte) (int, error) {
	n, err := r.r.Read(b)
	if err != nil && !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = r.u.broken(err)
	}
	return n, err
}

// bounded ends with an error after so many bytes.
type bounded struct {
	r     io.Reader
	left  int64
	zeros int // how many of the last bytes were zero
	u     *unpacking
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, tooLarge(b.u.what, b.u.limits)
	}
	if err := context.Cause(b.u.ctx); err != nil {
		return 0, cancelled(err)
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	if kept := len(bytes.TrimRight(p[:n], "\x00")); kept > 0 {
		b.zeros = n - kept
	} else {
		b.zeros += n
	}
	return n, err
}
