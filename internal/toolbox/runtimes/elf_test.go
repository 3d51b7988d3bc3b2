package runtimes_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolyard/toolyard/internal/toolbox/runtimes"
)

// TestClosureAsTheLoader compares with what the machine's own loader says of
// programs of the machine that it may run.
func TestClosureAsTheLoader(t *testing.T) {
	ldd, err := exec.LookPath("ldd")
	if err != nil {
		t.Skip("no ldd")
	}
	for _, name := range []string{"node", "git", "python3", "curl", "bash", "/usr/lib/git-core/git-remote-http", "/usr/lib/chromium/chromium"} {
		program, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if program, err = filepath.EvalSymlinks(program); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), ldd, program).Output()
		if err != nil {
			continue // a script
		}
		var got []string
		for _, path := range runtimes.Closure(program) {
			real, err := filepath.EvalSymlinks(path)
			if err != nil {
				t.Errorf("%s: %v", program, err)
			}
			got = append(got, real)
		}
		for line := range strings.Lines(string(out)) {
			fields := strings.Fields(line)
			i := slices.IndexFunc(fields, func(f string) bool { return strings.HasPrefix(f, "/") })
			if i < 0 {
				continue
			}
			want, err := filepath.EvalSymlinks(fields[i])
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(got, want) {
				t.Errorf("%s: %s is not in %v", program, want, got)
			}
		}
	}
}

// cacheOf makes an ld.so.cache in the new format.
func cacheOf(rows ...[2]string) []byte {
	var strs bytes.Buffer
	offset := 48 + 24*len(rows)
	text := append([]byte("glibc-ld.so.cache1.1"), make([]byte, 28)...)
	binary.NativeEndian.PutUint32(text[20:], uint32(len(rows)))
	for _, r := range rows {
		row := make([]byte, 24)
		binary.NativeEndian.PutUint32(row[4:], uint32(offset+strs.Len()))
		strs.WriteString(r[0] + "\x00")
		binary.NativeEndian.PutUint32(row[8:], uint32(offset+strs.Len()))
		strs.WriteString(r[1] + "\x00")
		text = append(text, row...)
	}
	return append(text, strs.Bytes()...)
}

func TestParseCache(t *testing.T) {
	text := cacheOf([2]string{"liba.so.1", "/usr/lib/liba.so.1"}, [2]string{"liba.so.1", "/opt/liba.so.1"}, [2]string{"libb.so", "relative"})
	old := append([]byte("ld.so-1.7.0\x00"), make([]byte, 4+12+4)...)
	binary.NativeEndian.PutUint32(old[12:], 1)
	for name, c := range map[string][]byte{"new": text, "after the old": append(old[:32:32], text...)} {
		got := runtimes.ParseCache(c)
		if len(got) != 1 || !slices.Equal(got["liba.so.1"], []string{"/usr/lib/liba.so.1", "/opt/liba.so.1"}) {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func FuzzParseCache(f *testing.F) {
	f.Add(cacheOf([2]string{"liba.so.1", "/usr/lib/liba.so.1"}))
	f.Add([]byte("ld.so-1.7.0\x00\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, paths := range runtimes.ParseCache(text) {
			for _, path := range paths {
				if name == "" || !filepath.IsAbs(path) {
					t.Errorf("%q: %q", name, path)
				}
			}
		}
	})
}

func FuzzObject(f *testing.F) {
	if program, err := exec.LookPath("true"); err == nil {
		if text, err := os.ReadFile(program); err == nil {
			f.Add(text)
		}
	}
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Fuzz(func(t *testing.T, text []byte) {
		needed, err := runtimes.Needed(bytes.NewReader(text))
		if err != nil && len(needed) > 0 {
			t.Errorf("%v and %v", needed, err)
		}
	})
}
