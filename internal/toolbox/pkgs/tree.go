package pkgs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolyard/toolyard/tool"
)

// Manifest lists the source files of a tool by their path with slashes: what
// each contains and whether it may be executed, "x" or "-", and "l" for a
// symlink.
type Manifest map[string]string

// Hash is one hash of the whole.
func (m Manifest) Hash() string {
	h := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(h, "%s\x00%s\n", name, m[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Hash is the hash of the files that define the tool in a folder, in hexadecimal:
// of all but data/, logs/, .env, run.log, node_modules/ and .venv/.
func Hash(dir string) (string, error) {
	m, err := manifestOf(dir)
	if err != nil {
		return "", err
	}
	return m.Hash(), nil
}

// manifestOf reads the sources in a folder.
func manifestOf(dir string) (Manifest, error) {
	m := Manifest{}
	err := walk(dir, isSource, func(name string, info fs.FileInfo) error {
		sum, err := sumOf(filepath.Join(dir, filepath.FromSlash(name)), info)
		if err == nil && sum != "" {
			m[name] = sum
		}
		return err
	})
	return m, err
}

// sumOf is the manifest's line of one file; "" for a directory.
func sumOf(file string, info fs.FileInfo) (string, error) {
	switch {
	case info.IsDir():
		return "", nil
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(file)
		if err != nil {
			return "", err
		}
		sum := sha256.Sum256([]byte(to))
		return "l" + hex.EncodeToString(sum[:]), nil
	}
	f, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return mode(info) + hex.EncodeToString(h.Sum(nil)), nil
}

func mode(info fs.FileInfo) string {
	if info.Mode()&0o111 != 0 {
		return "x"
	}
	return "-"
}

// walk calls visit for each file, directory and symlink below a folder that want
// lets pass, parents first, by name. What is none of these is left out. A folder
// that is not wanted is not gone into.
func walk(dir string, want func(name string) bool, visit func(name string, info fs.FileInfo) error) error {
	var below func(rel string) error
	below = func(rel string) error {
		entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(rel)))
		if err != nil {
			return err
		}
		for _, e := range entries {
			name := path.Join(rel, e.Name())
			if !want(name) {
				continue
			}
			info, err := e.Info()
			if errors.Is(err, fs.ErrNotExist) {
				continue // it went away meanwhile
			}
			if err != nil {
				return err
			}
			if !info.IsDir() && !info.Mode().IsRegular() && info.Mode()&fs.ModeSymlink == 0 {
				continue
			}
			if err := visit(name, info); err != nil {
				return err
			}
			if info.IsDir() {
				if err := below(name); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return below("")
}

// all wants everything.
func all(string) bool { return true }

// stampOf tells the state of a folder's sources, and that of what is installed,
// without reading them: by size, time of change and inode.
func stampOf(dir string) (sources, installed string, err error) {
	h := sha256.New()
	err = walk(dir, isSource, func(name string, info fs.FileInfo) error {
		if !info.IsDir() {
			fmt.Fprintf(h, "%s\x00%d %d %d %o\n", name, info.Size(), info.ModTime().UnixNano(), inode(info), info.Mode())
		}
		return nil
	})
	if err != nil {
		return "", "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), installedStamp(dir), nil
}

// installedStamp tells one state of node_modules and .venv from another: whoever
// installs writes one of these, or makes the folder anew.
func installedStamp(dir string) string {
	var b bytes.Buffer
	for _, name := range []string{
		"node_modules", "node_modules/.package-lock.json", "node_modules/.modules.yaml", "node_modules/.toolyard.json", "node_modules/.pnpm", "node_modules/.pnpm/lock.yaml",
		".venv", ".venv/pyvenv.cfg", ".venv/lib", ".venv/.toolyard",
	} {
		if info, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(name))); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", name, info.ModTime().UnixNano(), inode(info))
		}
	}
	if libs, err := filepath.Glob(filepath.Join(dir, ".venv", "lib", "*", "site-packages")); err == nil {
		for _, l := range libs {
			if info, err := os.Lstat(l); err == nil {
				fmt.Fprintf(&b, "%s %d %d\n", filepath.Base(filepath.Dir(l)), info.ModTime().UnixNano(), inode(info))
			}
		}
	}
	if b.Len() == 0 {
		return ""
	}
	sum := sha256.Sum256(b.Bytes())
	return hex.EncodeToString(sum[:16])
}

// editHash is the hash by which an edit of the user is told from what installing
// dependencies writes: without lockfiles, and without the dependencies in
// package.json.
func editHash(dir string, m Manifest) string {
	m = maps.Clone(m)
	maps.DeleteFunc(m, func(name, _ string) bool { return isLockfile(name) })
	if _, ok := m["package.json"]; ok {
		if text, err := os.ReadFile(filepath.Join(dir, "package.json")); err == nil {
			m["package.json"] = withoutDependencies(text)
		}
	}
	return m.Hash()
}

func withoutDependencies(text []byte) string {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(text, &object); err == nil {
		delete(object, "dependencies")
		plain := map[string]any{}
		for k, v := range object {
			var x any
			if json.Unmarshal(v, &x) == nil {
				plain[k] = x
			}
		}
		if canonical, err := json.Marshal(plain); err == nil {
			text = canonical
		}
	}
	sum := sha256.Sum256(text)
	return "-" + hex.EncodeToString(sum[:])
}

// copying copies parts of folders.
type copying struct {
	ctx   context.Context
	from  string
	to    string // exists
	limit Limits // Unpacked and Entries; zero is no limit
	// link makes hard links instead of copies where it can.
	link bool
	// symlink decides on one: what to do about it was done, or an error.
	symlink func(name, target string) (keep bool, err error)
	report  func(Progress)

	entries int
	bytes   int64
}

// copy copies what want lets pass and returns the manifest of what was copied,
// as it was read.
func (c *copying) copy(want func(string) bool) (Manifest, error) {
	m := Manifest{}
	err := walk(c.from, want, func(name string, info fs.FileInfo) error {
		if err := context.Cause(c.ctx); err != nil {
			return cancelled(err)
		}
		if c.entries++; c.limit.Entries > 0 && c.entries > c.limit.Entries {
			return tooMany(c.from, c.limit)
		}
		sum, err := c.one(name, info)
		if err == nil && sum != "" {
			m[name] = sum
		}
		return err
	})
	return m, err
}

func (c *copying) one(name string, info fs.FileInfo) (string, error) {
	from, to := filepath.Join(c.from, filepath.FromSlash(name)), filepath.Join(c.to, filepath.FromSlash(name))
	switch {
	case info.IsDir():
		err := os.Mkdir(to, 0o755)
		if errors.Is(err, fs.ErrExist) {
			err = nil
		}
		return "", err
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return "", err
		}
		if c.symlink != nil {
			if keep, err := c.symlink(name, target); err != nil || !keep {
				return "", err
			}
		}
		sum, err := sumOf(from, info)
		if err == nil {
			err = os.Symlink(target, to)
		}
		return sum, err
	case c.link:
		if err := os.Link(from, to); err == nil {
			return "", nil
		} else if full(err) {
			return "", err
		}
	}
	return c.file(from, to, info)
}

// file copies one, up to the limit, whatever it says its size is.
func (c *copying) file(from, to string, info fs.FileInfo) (string, error) {
	in, err := openRegular(from)
	if err != nil {
		return "", err
	}
	defer in.Close()
	perm := fs.FileMode(0o644)
	if info.Mode()&0o111 != 0 {
		perm = 0o755
	}
	if info.Mode()&0o077 == 0 {
		perm &= 0o700
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, perm)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	var src io.Reader = in
	if c.limit.Unpacked > 0 {
		src = io.LimitReader(in, c.limit.Unpacked-c.bytes+1)
	}
	n, err := io.Copy(io.MultiWriter(out, h), src)
	if c.bytes += n; err == nil && c.limit.Unpacked > 0 && c.bytes > c.limit.Unpacked {
		err = tooLarge(c.from, c.limit)
	}
	if e := out.Close(); err == nil {
		err = e
	}
	report(c.report, Progress{Stage: "copy", Done: c.bytes})
	return mode(info) + hex.EncodeToString(h.Sum(nil)), err
}

func tooMany(what string, l Limits) error {
	return tool.Errorf(tool.ResourceExhausted, "%s has more than %d files and folders", what, l.Entries).
		WithHint("A tool's package holds its sources; dependencies are installed from package.json.")
}

func tooLarge(what string, l Limits) error {
	return tool.Errorf(tool.ResourceExhausted, "the files in %s are larger than %s together", what, size(l.Unpacked)).
		WithHint("A tool's package holds its sources; what a tool needs besides belongs into data/ or is fetched by it.")
}

func cancelled(err error) error {
	return tool.Errorf(tool.Cancelled, "stopped: %v", err)
}

func size(n int64) string {
	switch {
	case n >= megabyte && n%megabyte == 0:
		return fmt.Sprintf("%d MB", n/megabyte)
	case n >= 1000 && n%1000 == 0:
		return fmt.Sprintf("%d kB", n/1000)
	}
	return fmt.Sprintf("%d bytes", n)
}

// topFiles lists the regular files at the top of a folder.
func topFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		if e.Type().IsRegular() {
			names = append(names, e.Name())
		}
	}
	return names, err
}

// relativeInside reports whether a symlink at name leads to something below the
// same folder.
func relativeInside(name, target string) bool {
	if path.IsAbs(target) || filepath.IsAbs(target) {
		return false
	}
	joined := path.Join(path.Dir(name), filepath.ToSlash(target))
	return joined != ".." && !strings.HasPrefix(joined, "../")
}
