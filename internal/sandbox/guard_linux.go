//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/toolyard/toolyard/tool"
)

// Bounds of what is kept of protected files at the levels that cannot mount.
const (
	maxKeptFile  = 1 * MiB
	maxKeptTotal = 16 * MiB
)

// guard takes away what appears at a protected path. Where protected paths are
// not mounts it keeps a copy of what there is, and puts it back.
type guard struct {
	guarded []guarded
	kept    []kept // nil where the mounts protect
}

// kept is one protected file, directory or symlink as it was.
type kept struct {
	root, rel string
	info      fs.FileInfo
	data      []byte // of a file, or a symlink's target
}

func newGuard(t *tree, level Level) (*guard, error) {
	g := &guard{guarded: t.guarded}
	if level.AtLeast(L2b) {
		return g, nil
	}
	total := 0
	for _, w := range t.guarded {
		for _, path := range w.found {
			err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
				if err != nil {
					return nil // unreadable for us, so for the command
				}
				k, err := keep(w.root, path, d)
				if err != nil {
					return err
				}
				if total += len(k.data); total > maxKeptTotal {
					return fmt.Errorf("protected files below %s hold over %d MiB", w.root, maxKeptTotal/MiB)
				}
				g.kept = append(g.kept, k)
				return nil
			})
			if err != nil {
				return nil, tool.Errorf(tool.SandboxUnavailable, "protected files cannot be kept safe at level %s: %v", level, err).
					WithHint("Give the sandbox a mount namespace (toolyard doctor says how), or protect less.")
			}
		}
	}
	return g, nil
}

func keep(root, path string, d fs.DirEntry) (kept, error) {
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return kept{}, err
	}
	info, err := d.Info()
	if err != nil {
		return kept{}, err
	}
	k := kept{root: root, rel: rel, info: info}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		var target string
		target, err = os.Readlink(path)
		k.data = []byte(target)
	case info.Mode().IsRegular():
		if info.Size() > maxKeptFile {
			return k, fmt.Errorf("%s is over %d MiB", path, maxKeptFile/MiB)
		}
		k.data, err = readRegular(path)
	}
	return k, err
}

// readRegular reads a file that the command may exchange at any time: for a
// pipe, which would keep the reader waiting, or for something endless.
func readRegular(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	return io.ReadAll(io.LimitReader(f, maxKeptFile+1))
}

// check undoes what was done to protected paths and reports it.
func (g *guard) check() []Violation {
	var list []Violation
	for _, w := range g.guarded {
		for _, path := range matches(w.root, w.pattern) {
			if slices.Contains(w.found, path) || freshRepository(path) {
				continue
			}
			v := Violation{"protected", path, "protected path " + w.pattern + ": it was made by the command and taken away"}
			if err := removeBelow(w.root, path); err != nil {
				v.Rule = "protected path " + w.pattern + ": it was made by the command and could not be taken away: " + err.Error()
			}
			list = append(list, v)
		}
	}
	for _, k := range g.kept {
		list = append(list, k.removeNew(g.kept)...)
		if k.same() {
			continue
		}
		v := Violation{"protected", filepath.Join(k.root, k.rel), "protected path: it was changed by the command and put back"}
		if err := k.restore(); err != nil {
			v.Rule = "protected path: it was changed by the command and could not be put back: " + err.Error()
		}
		list = append(list, v)
	}
	return list
}

// freshRepository reports whether a path is what "git init" makes and holds
// nothing that could run: a command may make a repository.
func freshRepository(path string) bool {
	switch {
	case strings.HasSuffix(path, "/.git/hooks"):
		entries, err := os.ReadDir(path)
		return err == nil && !slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
			return !strings.HasSuffix(e.Name(), ".sample") || !e.Type().IsRegular()
		})
	case strings.HasSuffix(path, "/.git/config"):
		info, err := os.Lstat(path)
		if err != nil || !info.Mode().IsRegular() || info.Size() > 1024 {
			return false
		}
		text, err := readRegular(path)
		return err == nil && plainConfig(string(text))
	case strings.HasSuffix(path, "/commondir") && strings.Contains(path, "/.git/worktrees/"):
		text, err := readRegular(path)
		return err == nil && strings.TrimSpace(string(text)) == "../.."
	}
	return false
}

// plainConfig reports whether a git configuration has no setting but those that
// "git init" writes.
func plainConfig(text string) bool {
	plain := []string{"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks"}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, value, _ := strings.Cut(line, "=")
		value = strings.TrimSpace(value)
		simple := value == "true" || value == "false" || value == "0" || value == "1"
		if line != "" && line != "[core]" && !(slices.Contains(plain, strings.TrimSpace(name)) && simple) {
			return false
		}
	}
	return true
}

// removeBelow removes a path, following no symlink out of root: the command may
// still run and change what is there.
func removeBelow(root, path string) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	rel, err := filepath.Rel(root, path)
	if err != nil {
		return err
	}
	if err := r.RemoveAll(rel); err == nil {
		return nil
	}
	openUp(r, rel)
	return r.RemoveAll(rel)
}

// openUp gives back the rights to enter and change a directory and those in it.
func openUp(r *os.Root, rel string) {
	info, err := r.Lstat(rel)
	if err != nil || !info.IsDir() || r.Chmod(rel, 0o700) != nil {
		return
	}
	dir, err := r.Open(rel)
	if err != nil {
		return
	}
	defer dir.Close()
	entries, _ := dir.ReadDir(-1)
	for _, e := range entries {
		if e.IsDir() {
			openUp(r, filepath.Join(rel, e.Name()))
		}
	}
}

// removeNew takes away what a directory did not hold before.
func (k *kept) removeNew(all []kept) []Violation {
	if !k.info.IsDir() {
		return nil
	}
	dir := filepath.Join(k.root, k.rel)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var list []Violation
	for _, e := range entries {
		rel := filepath.Join(k.rel, e.Name())
		if slices.ContainsFunc(all, func(o kept) bool { return o.root == k.root && o.rel == rel }) {
			continue
		}
		v := Violation{"protected", filepath.Join(dir, e.Name()), "protected path: it was made by the command and taken away"}
		if err := removeBelow(k.root, v.Target); err != nil {
			v.Rule = "protected path: it was made by the command and could not be taken away: " + err.Error()
		}
		list = append(list, v)
	}
	return list
}

func (k *kept) same() bool {
	path := filepath.Join(k.root, k.rel)
	info, err := os.Lstat(path)
	if err != nil || info.Mode() != k.info.Mode() || ownerOf(info) != ownerOf(k.info) {
		return false
	}
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(path)
		return err == nil && target == string(k.data)
	case info.Mode().IsRegular():
		if info.Size() != k.info.Size() {
			return false
		}
		now, err := readRegular(path)
		return err == nil && bytes.Equal(now, k.data)
	}
	return true
}

// restore puts back what was there, with the owner that it had: root may be
// working in somebody else's directory.
func (k *kept) restore() error {
	r, err := os.OpenRoot(k.root)
	if err != nil {
		return err
	}
	defer r.Close()
	mode := k.info.Mode()
	if info, err := r.Lstat(k.rel); err == nil && (info.Mode().Type() != mode.Type() || !mode.IsDir()) {
		if err := r.RemoveAll(k.rel); err != nil {
			return err
		}
	}
	if err := k.makeDir(r, filepath.Dir(k.rel), 0o755); err != nil {
		return err
	}
	switch {
	case mode.IsDir():
		if err := k.makeDir(r, k.rel, mode.Perm()); err != nil {
			return err
		}
		return r.Chmod(k.rel, mode.Perm())
	case mode&fs.ModeSymlink != 0:
		return errors.Join(r.Symlink(string(k.data), k.rel), k.own(r, k.rel))
	}
	if err := r.WriteFile(k.rel, k.data, mode.Perm()); err != nil {
		return err
	}
	return errors.Join(k.own(r, k.rel), r.Chmod(k.rel, mode.Perm()))
}

// makeDir makes a directory and those above it, where they are missing.
func (k *kept) makeDir(r *os.Root, rel string, mode fs.FileMode) error {
	if rel == "." {
		return nil
	}
	if err := k.makeDir(r, filepath.Dir(rel), 0o755); err != nil {
		return err
	}
	err := r.Mkdir(rel, mode)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return errors.Join(err, k.own(r, rel))
}

// own gives what was made to the owner of what is put back.
func (k *kept) own(r *os.Root, rel string) error {
	if os.Getuid() != 0 {
		return nil
	}
	owner := ownerOf(k.info)
	return r.Lchown(rel, owner[0], owner[1])
}

func ownerOf(info fs.FileInfo) (owner [2]int) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = [2]int{int(st.Uid), int(st.Gid)}
	}
	return owner
}
