package pkgs

import (
	"archive/zip"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// unzip unpacks a zip archive into a folder.
func unzip(ctx context.Context, r io.ReaderAt, length int64, dir, what string, l Limits, f func(Progress)) error {
	u, err := newUnpacking(ctx, dir, what, length, l, f)
	if err != nil {
		return failure(err, "unpacking %s", what)
	}
	defer u.root.Close()
	return u.zip(r, length)
}

func (u *unpacking) zip(r io.ReaderAt, length int64) error {
	if err := u.directory(r, length); err != nil {
		return err
	}
	z, err := zip.NewReader(r, length)
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		return u.broken(err)
	}
	if len(z.File) > u.limits.Entries {
		return tooMany(u.what, u.limits)
	}
	for _, f := range z.File {
		if err := u.zipEntry(f); err != nil {
			return err
		}
	}
	return nil
}

func (u *unpacking) zipEntry(f *zip.File) error {
	mode := f.Mode()
	const encrypted = 0x1
	switch {
	case strings.HasSuffix(f.Name, "/") || mode.IsDir():
		if f.UncompressedSize64 > 0 {
			return u.refuse(f.Name, "is a folder with content")
		}
		return u.dir(f.Name)
	case mode&fs.ModeSymlink != 0:
		return u.refuse(f.Name, "is a symlink")
	case !mode.IsRegular():
		return u.refuse(f.Name, "is neither a file nor a folder")
	case f.Flags&encrypted != 0:
		return u.refuse(f.Name, "is encrypted")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return u.refuse(f.Name, "is compressed in a way (%d) other than deflate", f.Method)
	case f.UncompressedSize64 > uint64(u.limits.Unpacked):
		return tooLarge(u.what, u.limits)
	}
	r, err := f.Open()
	if err != nil {
		return u.broken(err)
	}
	defer r.Close()
	return u.file(f.Name, mode, &reading{r, u})
}

// directory looks at how long the archive says its directory is, before
// archive/zip reads all of it into memory: a hundred megabytes can hold two
// million entries.
func (u *unpacking) directory(r io.ReaderAt, length int64) error {
	tail := make([]byte, min(length, 22+65535))
	if _, err := r.ReadAt(tail, length-int64(len(tail))); err != nil && !errors.Is(err, io.EOF) {
		return u.broken(err)
	}
	i := strings.LastIndex(string(tail), "PK\x05\x06")
	if i < 0 || len(tail)-i < 22 {
		return u.broken(zip.ErrFormat)
	}
	end := tail[i:]
	records, offset := uint64(binary.LittleEndian.Uint16(end[10:])), uint64(binary.LittleEndian.Uint32(end[16:]))
	bytes := uint64(binary.LittleEndian.Uint32(end[12:]))
	if records == 0xffff || offset == 0xffffffff || bytes == 0xffffffff {
		// Zip64 is for more entries and more bytes than are let in.
		return tool.Errorf(tool.ResourceExhausted, "%s is a zip64 archive, which is for more than fits into %s", u.what, size(u.limits.Archive)).
			WithHint("Pack it as .tar.gz, or as a plain zip.")
	}
	ends := uint64(length) - uint64(len(tail)-i)
	most := uint64(u.limits.Entries)*512 + 65536 // a header has 46 bytes and a name
	if records > uint64(u.limits.Entries) || bytes > most || offset > ends || ends-offset > most {
		return tooMany(u.what, u.limits)
	}
	return nil
}
