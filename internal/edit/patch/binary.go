package patch

import (
	"bytes"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/bluekeyes/go-gitdiff/gitdiff"
	"github.com/toolyard/toolyard/tool"
)

// binary is a git binary patch with the hashes that make it safe.
type binary struct {
	file             *gitdiff.File
	oldHash, newHash string
	at               int
}

// binaryPatch reads "GIT binary patch" and its two hunks. As in git apply it
// needs full hashes: without them nothing tells whether it fits.
func (u *unified) binaryPatch(h gitHeader) (*binary, error) {
	at := u.next + 1
	const full = 40
	if len(h.oldHash) != full || len(h.newHash) != full {
		return nil, faultf(at, "a binary patch needs an index line with full hashes (git diff --full-index --binary)")
	}
	end := u.next
	for end < len(u.lines) && !strings.HasPrefix(u.lines[end], "diff --git ") {
		end++
	}
	section := "diff --git a/f b/f\nindex " + h.oldHash + ".." + h.newHash + " 100644\n" + strings.Join(u.lines[u.next:end], "\n") + "\n"
	files, _, err := gitdiff.Parse(strings.NewReader(section))
	if err != nil || len(files) != 1 || files[0].BinaryFragment == nil {
		return nil, faultf(at, "the binary patch cannot be read: %v", err)
	}
	u.next = end
	return &binary{file: files[0], oldHash: h.oldHash, newHash: h.newHash, at: at}, nil
}

// Binary reports whether the file's content is a binary patch, to be made with
// [File.ApplyBinary].
func (f *File) Binary() bool { return f.binary != nil }

// ApplyBinary gives the new bytes of a binary patch. The old and the new content
// must have the hashes that the patch names.
func (f *File) ApplyBinary(content []byte) ([]byte, error) {
	if hash := gitHash(content); hash != f.binary.oldHash && !(len(content) == 0 && strings.Trim(f.binary.oldHash, "0") == "") {
		return nil, tool.Errorf(tool.Conflict, "%s has git hash %s, but the binary patch is for %s", f.Old, hash, f.binary.oldHash)
	}
	var out bytes.Buffer
	if err := gitdiff.Apply(&out, bytes.NewReader(content), f.binary.file); err != nil {
		return nil, tool.Errorf(tool.Conflict, "the binary patch of %s does not apply: %v", f.Old, err)
	}
	if hash := gitHash(out.Bytes()); f.Kind != Delete && hash != f.binary.newHash {
		return nil, tool.Errorf(tool.Conflict, "the binary patch of %s gives content with git hash %s instead of %s", f.Old, hash, f.binary.newHash)
	}
	return out.Bytes(), nil
}

// gitHash is the name that git gives a blob.
func gitHash(content []byte) string {
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	return hex.EncodeToString(h.Sum(nil))
}
