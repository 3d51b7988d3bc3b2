package runtimes_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
)

// pack makes a tar.gz. A header without a size gets that of its content.
func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	zw := gzip.NewWriter(&b)
	tw := tar.NewWriter(zw)
	for _, e := range entries {
		if e.Typeflag == 0 {
			e.Typeflag = tar.TypeReg
		}
		if e.Mode == 0 {
			e.Mode = 0o644
		}
		e.Size = int64(len(e.content))
		if err := tw.WriteHeader(&e.Header); err != nil {
			t.Fatalf("%q: %v", e.Name, err)
		}
		if _, err := tw.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zw.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type entry struct {
	tar.Header
	content string
}

func file(name, content string) entry { return entry{tar.Header{Name: name}, content} }

func TestExtract(t *testing.T) {
	dir := t.TempDir()
	archive := pack(t,
		entry{tar.Header{Name: "package/", Typeflag: tar.TypeDir}, ""},
		entry{tar.Header{Name: "package/bin/", Typeflag: tar.TypeDir, Mode: 0o777}, ""},
		entry{tar.Header{Name: "package/bin/node", Mode: 0o6755}, "program"},
		entry{tar.Header{Name: "package/LICENSE", Mode: 0o666}, "text"},
		file("package/share/a/b/c.txt", ""),
		file("package/"+strings.Repeat("long/", 20)+strings.Repeat("x", 200), "x"),
	)
	if err := runtimes.Extract(bytes.NewReader(archive), dir, 1<<20, 100); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{"bin/node": 0o755, "LICENSE": 0o644, "share/a/b/c.txt": 0o644, "bin": fs.ModeDir | 0o755} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: got %v, %v, want %v", name, info, err, want)
		}
	}
}

func TestExtractRefuses(t *testing.T) {
	link := func(kind byte, name, to string) entry {
		return entry{tar.Header{Name: name, Typeflag: kind, Linkname: to}, ""}
	}
	for _, c := range []struct {
		name    string
		entries []entry
		want    string
	}{
		{"the parent", []entry{file("package/../../evil", "x")}, "not a plain one"},
		{"the parent first", []entry{file("../evil", "x")}, "not a plain one"},
		{"from the root", []entry{file("/etc/evil", "x")}, "not a plain one"},
		{"a drive", []entry{file("package/C:evil", "x")}, "letter"},
		{"backslashes", []entry{file(`package\..\evil`, "x")}, "letter"},
		{"a dot", []entry{file("package/./x", "x")}, "not a plain one"},
		{"a blank at the end", []entry{file("package/x ", "x")}, "not a plain one"},
		{"a control letter", []entry{file("package/x\x07", "x")}, "not a plain one"},
		{"a symlink", []entry{link(tar.TypeSymlink, "package/x", "/etc/passwd")}, "a link"},
		{"a symlink on the way", []entry{link(tar.TypeSymlink, "package/d", "/tmp"), file("package/d/x", "x")}, "a link"},
		{"a hard link", []entry{link(tar.TypeLink, "package/x", "package/y")}, "a link"},
		{"a device", []entry{link(tar.TypeChar, "package/x", "")}, "type"},
		{"a pipe", []entry{link(tar.TypeFifo, "package/x", "")}, "type"},
		{"twice", []entry{file("package/x", "1"), file("package/x", "2")}, "twice"},
		{"in two cases", []entry{file("package/README", "1"), file("package/readme", "2")}, "twice"},
		{"directories in two cases", []entry{file("package/Lib/a", "1"), file("package/lib/b", "2")}, "another case"},
		{"a file as directory", []entry{file("package/x", "1"), file("package/x/y", "2")}, "in its way"},
		{"too large", []entry{file("package/x", strings.Repeat("x", 5000))}, "too large"},
		{"too large together", []entry{file("package/x", strings.Repeat("x", 3000)), file("package/y", strings.Repeat("x", 3000))}, "too large"},
		{"too many", []entry{file("package/1", ""), file("package/2", ""), file("package/3", ""), file("package/4", ""), file("package/5", ""), file("package/6", "")}, "too many"},
		{"too many directories", []entry{file("package/1/2/3/4/5/6/7", "")}, "too many"},
		{"too deep", []entry{file("package/"+strings.Repeat("d/", 40)+"x", "")}, "too deep"},
		{"outside of a directory", []entry{file("x", "1")}, "no directory"},
		{"nothing", nil, "empty"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			outer := t.TempDir()
			dir := filepath.Join(outer, "in", "here")
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			err := runtimes.Extract(bytes.NewReader(pack(t, c.entries...)), dir, 4096, 5)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
			if found, _ := filepath.Glob(outer + "/*"); len(found) != 1 {
				t.Errorf("outside of the directory: %v", found)
			}
		})
	}
	for name, text := range map[string]string{"no gzip": "plain", "cut off": string(pack(t, file("package/x", "1"))[:30])} {
		if err := runtimes.Extract(strings.NewReader(text), t.TempDir(), 4096, 5); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// FuzzExtract puts whatever comes into a directory of its own: what is unpacked
// are plain files in it, and no more than allowed.
func FuzzExtract(f *testing.F) {
	for _, entries := range [][]entry{
		{file("package/bin/node", "x"), file("package/LICENSE", "y")},
		{file("../x", "1")}, {file("package/../../x", "1")}, {{tar.Header{Name: "package/l", Typeflag: tar.TypeSymlink, Linkname: "/etc"}, ""}},
	} {
		var b bytes.Buffer
		zr, err := gzip.NewReader(bytes.NewReader(pack(f, entries...)))
		if err != nil {
			f.Fatal(err)
		}
		if _, err := b.ReadFrom(zr); err != nil {
			f.Fatal(err)
		}
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, plain []byte) {
		var b bytes.Buffer
		zw, _ := gzip.NewWriterLevel(&b, gzip.NoCompression)
		_, _ = zw.Write(plain)
		_ = zw.Close()
		outer := t.TempDir()
		dir := filepath.Join(outer, "in")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		_ = runtimes.Extract(&b, dir, 4096, 20)
		if found, _ := os.ReadDir(outer); len(found) != 1 {
			t.Errorf("outside of the directory: %v", found)
		}
		var files int
		var bytes int64
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			files++
			info, err := d.Info()
			if err != nil {
				return err
			}
			if !info.IsDir() {
				bytes += info.Size()
			}
			if !info.IsDir() && !info.Mode().IsRegular() || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid|0o022) != 0 {
				t.Errorf("%q is %v", path, info.Mode())
			}
			return nil
		})
		if err != nil || files > 21 || bytes > 4096 {
			t.Errorf("%d files of %d bytes, %v", files, bytes, err)
		}
	})
}

func FuzzInside(f *testing.F) {
	for _, name := range []string{"package/bin/node", "../x", "/etc/x", "a/b/../c", "package/", "./package/x", `a\b`, "a//b"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := runtimes.Inside(name)
		if err == nil && got != "" && !filepath.IsLocal(got) {
			t.Errorf("Inside(%q) = %q", name, got)
		}
	})
}

func tarHeader(name string, mode int64) tar.Header { return tar.Header{Name: name, Mode: mode} }
