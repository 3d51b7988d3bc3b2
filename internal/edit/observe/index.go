package observe

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"
)

// indexed is one entry of git's index: a tracked file as it was when git last
// looked.
type indexed struct {
	mtime time.Time
	size  uint32
	hash  string
	// racy says that the file may have changed after git looked, within the same
	// tick of the clock.
	racy bool
}

// maxIndex bounds how much of an index is read.
const maxIndex = 256 << 20

// readIndex reads the index of the repository at root, formats 2 to 4 with SHA-1 names (gitformat-index). Anything else means that git is no help:
// nil.
func readIndex(root *os.Root) map[string]indexed {
	file, err := root.OpenFile(filepath.Join(".git", "index"), os.O_RDONLY|nonBlock, 0)
	if err != nil {
		return nil
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxIndex {
		return nil
	}
	content := make([]byte, info.Size())
	if n, err := file.ReadAt(content, 0); err != nil && int64(n) != info.Size() {
		return nil
	}
	return parseIndex(content, info.ModTime())
}

// parseIndex reads the entries of an index written at a time.
func parseIndex(b []byte, written time.Time) map[string]indexed {
	const header, fixed, hashLen = 12, 62, 20
	if len(b) < header+hashLen || string(b[:4]) != "DIRC" {
		return nil
	}
	version, count := binary.BigEndian.Uint32(b[4:]), binary.BigEndian.Uint32(b[8:])
	if version < 2 || version > 4 || int64(count)*fixed > int64(len(b)) {
		return nil
	}
	entries := make(map[string]indexed, count)
	b = b[header : len(b)-hashLen]
	name := ""
	for range count {
		if len(b) < fixed {
			return nil
		}
		entry := b
		mtime := time.Unix(int64(binary.BigEndian.Uint32(entry[8:])), int64(binary.BigEndian.Uint32(entry[12:])))
		e := indexed{
			mtime: mtime, size: binary.BigEndian.Uint32(entry[36:]), hash: hex.EncodeToString(entry[40:60]),
			racy: !mtime.Before(written),
		}
		flags := binary.BigEndian.Uint16(entry[60:])
		rest := entry[fixed:]
		if flags&0x4000 != 0 && version >= 3 { // extended
			if len(rest) < 2 {
				return nil
			}
			rest = rest[2:]
		}
		var ok bool
		if name, rest, ok = indexName(version, name, rest, len(entry)-len(rest)); !ok {
			return nil
		}
		b = rest
		if stage := flags >> 12 & 3; stage == 0 {
			entries[name] = e
		}
	}
	return entries
}

// indexName reads an entry's name and its padding. In version 4 a name is given
// as what to cut off the previous one and what to add.
func indexName(version uint32, previous string, b []byte, used int) (name string, rest []byte, ok bool) {
	if version == 4 {
		cut, n := varint(b)
		if n == 0 || cut > uint64(len(previous)) {
			return "", nil, false
		}
		b = b[n:]
		end := bytes.IndexByte(b, 0)
		if end < 0 {
			return "", nil, false
		}
		return previous[:len(previous)-int(cut)] + string(b[:end]), b[end+1:], true
	}
	end := bytes.IndexByte(b, 0)
	if end < 0 {
		return "", nil, false
	}
	padded := (used+end+8)/8*8 - used // at least one NUL, entries are multiples of 8
	if padded > len(b) {
		return "", nil, false
	}
	return string(b[:end]), b[padded:], true
}

// varint reads git's offset encoding; n is 0 if there is none.
func varint(b []byte) (value uint64, n int) {
	for n < len(b) && n < 9 {
		c := b[n]
		n++
		value = value<<7 | uint64(c&0x7f)
		if c&0x80 == 0 {
			return value, n
		}
		value++
	}
	return 0, 0
}
